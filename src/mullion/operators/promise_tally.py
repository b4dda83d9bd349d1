"""What became of the pairs that a promising join could have told, or of the rows of a selection.

    offered = told + waiting + expired + shed

A pair that the residual predicate turns down was never an offer: whoever looks at it takes it back.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import pyarrow as pa


@dataclass
class PromiseTally:
    offered: int = 0
    told: int = 0
    waiting: int = 0
    expired: int = 0
    """Pairs that nobody looked at while their rows were there."""
    shed: int = 0
    """Pairs that were not drawn, and those of rows that were evicted to save memory."""
    shed_by_memory: int = 0
    """Of these, those of rows that were evicted: what waited, and about what new rows would have met."""
    rows_shed: int = 0
    """Rows that were evicted before their time."""
    bytes: int = 0
    """What is kept now: rows, what waits, and the sample of what is gone."""
    apart: float = 0.0
    """The microseconds between the two rows of each pair that was told, together; of a selection, those that rows
    waited."""

    @property
    def share(self) -> float:
        """The part that was told."""
        return self.told / self.offered if self.offered else 1.0

    @property
    def freshness(self) -> float | None:
        """The mean of that (microseconds); None before the first."""
        return self.apart / self.told if self.told else None

    def lose(self, pairs: int) -> None:
        """Pairs of rows that were evicted."""
        self.shed += pairs
        self.shed_by_memory += pairs

    def facts(self) -> dict[str, int | float | None]:
        """For statistics."""
        counts = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "apart"}
        fresh = self.freshness
        return {**counts, "share": round(self.share, 4), "freshness": None if fresh is None else round(fresh / 1e6, 6)}

    def to_table(self) -> pa.Table:
        return pa.table({f"#{name}": [value] for name, value in asdict(self).items()})

    @staticmethod
    def from_table(table: pa.Table) -> PromiseTally:
        return PromiseTally(*(table.column(f"#{field.name}")[0].as_py() for field in fields(PromiseTally)))
