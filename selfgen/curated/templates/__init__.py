"""A grammar of grade-school word problems: words, clauses that combine, and the engine that composes them.

A problem is an opener, zero to two middle clauses and a closing question; each clause carries text, number
ranges and arithmetic steps, so one draw gives the question, the worked solution and the program.
"""

from selfgen.curated.templates.engine import Problem, Step, draw
from selfgen.curated.templates.outside import draw_outside

__all__ = ["Problem", "Step", "draw", "draw_outside"]
