"""A join whose windows keep so many rows at the most (golab 2.4.3, memory short)."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from mullion.algebra.costs import Estimates, OperatorCost
from mullion.algebra.nodes.base import Node, SameLives
from mullion.algebra.nodes.join import Join
from mullion.algebra.nodes.registry import kind
from mullion.algebra.nodes.scan import Scan
from mullion.algebra.nodes.walk import scans
from mullion.algebra.update_pattern import Pattern

PARTS = 16
"""One of so many parts of a window is free after rows went: they go many at a time."""


@kind
class Bounded(SameLives):
    """The results of a join that are found while its windows keep at most `most[i]` rows of input i; None: all.

    Rows go after an instant of event time at which rows of their input came, if there are more than it may keep then,
    those of the instant among them and without those that end right after it, which meet nothing more. They go until
    `stays(i)` are left: first those that end soonest, or, where `rarest[i]`, those whose key the fewest combinations of
    kept rows of the other inputs have. Of equal ones those go first that end soonest, then those that came first. A
    result is lost if one of its rows went before the last of them came. Results that were found live as long as they
    would.

    So what is lost follows from the events alone, not from how they are cut into steps. `aggregated`: groups are made
    of the results, so it also tells when some are missing. A limit is one of all rows: it cannot be split by keys.
    """

    is_part: ClassVar[bool] = True

    most: tuple[int | None, ...]
    rarest: tuple[bool, ...]
    aggregated: bool = False

    @property
    def join(self) -> Join:
        assert isinstance(self.input, Join)
        return self.input

    def stays(self, i: int) -> int:
        """How many rows of an input are left after some went."""
        most = self.most[i]
        assert most is not None
        return most - most // PARTS

    def window(self, i: int) -> Scan:
        """The window of an input."""
        return next(iter(scans(self.join.parts[i])))

    @property
    def operator_inputs(self) -> tuple[Node, ...]:
        return self.join.parts

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        return self.input.needs(needed)

    def _limits(self, separator: str, called: list[str]) -> str:
        said = zip(self.most, self.rarest, called, strict=True)
        texts = [f"{most} rows{name}, {'rarest' if rare else 'oldest'} first" for most, rare, name in said if most]
        return separator.join(texts)

    @property
    def text(self) -> str:
        numbers = [f" of {i}" for i in range(len(self.most))]
        return f"bounded({self.input.text}, {self._limits(', ', numbers)}{', aggregated' if self.aggregated else ''})"

    @property
    def explained(self) -> str:
        windows = [f" of {self.window(i).explained}" for i in range(len(self.most))]
        return f"AT MOST {self._limits(' and ', windows)}"

    @property
    def pattern(self) -> Pattern:
        return self.input.pattern

    @property
    def looks_back(self) -> bool:
        """Which rows are left depends on when there were too many before."""
        return True

    def cost(self, estimates: Estimates) -> OperatorCost:
        """Every new row is counted."""
        return OperatorCost(processing=sum(estimates.flow(part).rate for part in self.join.parts))
