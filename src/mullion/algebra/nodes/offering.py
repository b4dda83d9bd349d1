"""What promising joins of one shape share: the rows of their inputs, and what new ones of these could meet."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from mullion.algebra.costs import Estimates, OperatorCost
from mullion.algebra.nodes.base import Node, SameLives
from mullion.algebra.nodes.join import Join
from mullion.algebra.nodes.registry import physical
from mullion.algebra.update_pattern import Pattern


@physical
class Offering(SameLives):
    """The pairs that a join without its residual could make. It tells none: `Promising` joins choose among them.

    It is no relation of a query and stands in no plan, so it is no kind of the algebra. Operators of promising joins
    stand on it, all of those with these inputs and keys on the same one. Where MEMORY lets rows go, which ones depends
    on what is preferred: such a join is the `owner`, by its name, of an offering that is shared with no other.
    """

    is_part: ClassVar[bool] = True

    input: Join
    owner: str = ""

    @property
    def operator_inputs(self) -> tuple[Node, ...]:
        return self.input.parts

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        return self.input.needs(needed)

    @property
    def text(self) -> str:
        return f"offering({self.input.text}{f', {self.owner}' if self.owner else ''})"

    @property
    def explained(self) -> str:
        return f"OFFERS OF {self.input.explained}"

    @property
    def pattern(self) -> Pattern:
        return self.input.pattern

    def cost(self, estimates: Estimates) -> OperatorCost:
        """Every new row looks up how many it would meet."""
        return OperatorCost(processing=sum(estimates.flow(part).rate for part in self.input.parts))
