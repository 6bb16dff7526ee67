"""The decision: the pre-registered rule, what it can detect, and analyses beside it that never decide.

`decide` applies the rule to paired per-item rows. `hoeffding` holds its bounds, `pairing` the pairing by item
id, `power` what the rule can say before money is spent, `sensitivity` the other intervals.
"""

from selfgen.decision.pairing import Paired, pair, read_arms
from selfgen.decision.verdict import Decision, decide

__all__ = ["Decision", "Paired", "decide", "pair", "read_arms"]
