"""Equal plans that cost less: named rules over the algebra (golab 3.5.3).

A rule looks at one node and gives an equal one, or None where it does not apply. Equal plans
have the same rows with the same lifetimes, since answers say when a row came and when it leaves.

Simplifying rules are applied wherever they fit: selections sink to the windows, NOT EXISTS keeps keys only. The others
give alternatives, of which the cheapest is taken. The novel one is update pattern simplification: operators with simple
patterns go down and strict ones up, so that fewer of them hear of negative tuples.

    the left of Figure 3.5               the right
    NOT EXISTS              strict       JOIN                  strict
    ├─ JOIN                 weak         ├─ NOT EXISTS         strict
    │  ├─ S1                weakest      │  ├─ S1              weakest
    │  └─ S2                weakest      │  └─ S3              weakest
    └─ S3                   weakest      └─ S2                 weakest

No rule moves a table that is joined through a negation: a negative tuple might find another row than the tuple that it
takes back.
"""

from __future__ import annotations

from mullion.planner.rewrites.anti_join import PROJECT_KEYS, PULL_UP, PUSH_DOWN, SWAP
from mullion.planner.rewrites.distinct import DROP_IDLE, PUSH_DISTINCT
from mullion.planner.rewrites.selection import PUSH_SELECTION

SIMPLIFYING = (PUSH_SELECTION, DROP_IDLE, PROJECT_KEYS)
"""Applied wherever they fit, in this order, until none does."""
SHARING = tuple(rule for rule in SIMPLIFYING if rule is not PUSH_SELECTION)
"""What is applied where selections stay above what queries share."""
ALTERNATIVES = (PULL_UP, PUSH_DOWN, SWAP, PUSH_DISTINCT)
"""Each plan that they lead to is considered."""
