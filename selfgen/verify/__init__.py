"""`selfgen verify`: can the published artifacts support the published verdict?

Needs no service and no key. Every claim is a function that recomputes something from the artifacts alone, with the
same library code the stages used, and compares. One module a kind of claim; `claims.CLAIMS` is the whole list.
"""
