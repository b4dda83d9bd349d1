"""The join of windows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import prod

from mullion.algebra.column_names import conjunction, conjuncts, inside, names_in, outside, parts_in
from mullion.algebra.costs import Estimates, Flow, OperatorCost, total
from mullion.algebra.nodes.base import Columns, Node, OperatorReason, OverMany
from mullion.algebra.nodes.filter import Filter
from mullion.algebra.nodes.registry import kind
from mullion.algebra.nodes.scan import Scan
from mullion.algebra.splitting import KeyExpressions, ShardKeys, by_any, by_own_keys
from mullion.algebra.texts import expression_text, list_text
from mullion.algebra.update_pattern import Pattern
from mullion.expressions.evaluate import is_fallible
from mullion.language.query import Column, Expr, Window
from mullion.language.render import render


@kind
class Join(OverMany):
    """All combinations of rows whose keys are equal. Input i has the keys `keys[i]`, over its own columns; all have as
    many, of the same types. A NULL equals nothing, NaN equals NaN. `residual` is over the columns of the join."""

    keys: tuple[tuple[Expr, ...], ...]
    residual: Expr | None = None

    @property
    def columns(self) -> Columns:
        return tuple((f"{i}.{name}", type_) for i, part in enumerate(self.parts) for name, type_ in part.columns)

    @property
    def compared(self) -> set[str]:
        """Its columns that are keys as they stand."""
        return {f"{i}.{key.name}" for i, keys in enumerate(self.keys) for key in keys if isinstance(key, Column)}

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        """Joins that may be shared keep what they were asked for, to know which rows are still wanted when queries
        leave."""
        names = set(needed) | (set() if self.residual is None else names_in(self.residual))
        windows = self.time_windows()
        wanted = [()] * len(self.parts) if windows is None else [predicates for _, predicates in windows]
        return [
            {name for name in part.types if f"{i}.{name}" in names} | names_in(*own, *predicates)
            for i, (part, own, predicates) in enumerate(zip(self.parts, self.keys, wanted, strict=True))
        ]

    def traced(self, expr: Expr) -> tuple[Scan, Expr] | None:
        read = parts_in(expr)
        return self.parts[read.pop()].traced(inside(expr)) if len(read) == 1 else None

    def time_windows(self) -> list[tuple[Scan, tuple[Expr, ...]]] | None:
        """The windows of a join of windows of time over streams, and the predicates on them; None for other joins."""
        windows = [_time_window(part) for part in self.parts]
        known = [window for window in windows if window is not None]
        return known if len(known) == len(windows) else None

    @property
    def text(self) -> str:
        also = "" if self.residual is None else f", where {render(self.residual)}"
        on = " = ".join(f"({list_text(keys)})" for keys in self.keys)
        return f"join({', '.join(part.text for part in self.parts)}, on {on}{also})"

    @property
    def explained(self) -> str:
        places = range(len(self.keys[0]) if self.keys else 0)
        equal = [" = ".join(expression_text(outside(own[i], p)) for p, own in enumerate(self.keys)) for i in places]
        also = [] if self.residual is None else [expression_text(self.residual)]
        return f"JOIN {' AND '.join([*equal, *also])}".rstrip()

    @property
    def why_operators(self) -> OperatorReason:
        return OperatorReason(1, "it joins rows of several windows")

    @property
    def pattern(self) -> Pattern:
        hardest = max(part.pattern for part in self.parts)
        return hardest if hardest is Pattern.MONOTONIC else max(hardest, Pattern.WEAK)

    @property
    def kept_as(self) -> Pattern:
        return max(Pattern.WEAK, *(part.kept_as for part in self.parts)) if self.is_internal else self.pattern

    def overlap(self, estimates: Estimates, met: float | None) -> float | None:
        """How often rows must meet, compared to evenly spread keys, for such a share of all combinations to meet."""
        combinations = prod(estimates.flow(part).size for part in self.parts)
        size = estimates.joined(self).size
        return None if met is None or size <= 0 else met * combinations / size

    def flow(self, estimates: Estimates) -> Flow:
        estimate = estimates.joined(self)
        size = estimate.size * estimates.meeting(*self.parts)
        rate = sum(size / max(life, 1e-9) for life in estimate.lives)
        share = 1.0 if self.residual is None else estimates.selectivity(self, self.residual)
        on_time = prod(1 - estimates.flow(part).premature for part in self.parts)
        return Flow(rate * share, min(estimate.lives) if rate == 0 else size / rate, 1 - on_time)

    def cost(self, estimates: Estimates) -> OperatorCost:
        probes = estimates.joined(self).probes
        asked = [OperatorCost(n, 0, n * estimates.announced(p)) for n, p in zip(probes, self.parts, strict=True)]
        keeping = [estimates.keeping(part) for part in self.parts]
        return total([OperatorCost(processing=estimates.flow(self).rate), *asked, *keeping])

    def split_by(self, keys: KeyExpressions) -> ShardKeys | None:
        called = [[outside(key, i) for key in own] for i, own in enumerate(self.keys)]
        return by_own_keys(keys, called, list(zip(self.parts, self.keys, strict=True)))

    def split_where_rows_meet(self) -> ShardKeys | None:
        return by_any(self, [outside(key, 0) for key in self.keys[0]])

    def conditions(self) -> Iterator[tuple[Node, Expr]]:
        for part, own in zip(self.parts, self.keys, strict=True):
            yield from ((part, key) for key in own if is_fallible(key, part.types))
        if self.residual is not None:
            yield from ((self, part) for part in conjuncts(self.residual))

    def filtered_below(self, predicate: Expr) -> Join:
        return self.with_conditions(list(conjuncts(predicate)))

    def with_conditions(self, conditions: Sequence[Expr]) -> Join:
        """Conditions over one input go to that input, those over several become part of the join."""
        parts = list(self.parts)
        rest = [] if self.residual is None else [self.residual]
        for condition in conditions:
            read = parts_in(condition)
            if len(read) == 1:
                part = read.pop()
                parts[part] = Filter(parts[part], inside(condition))
            else:
                rest.append(condition)
        return replace(self, parts=tuple(parts), residual=conjunction(rest) if rest else None)


def _time_window(node: Node) -> tuple[Scan, tuple[Expr, ...]] | None:
    match node:
        case Filter(input=below, predicate=predicate):
            inner = _time_window(below)
            return None if inner is None else (inner[0], (*inner[1], *conjuncts(predicate)))
        case Scan(window=Window(range=int(), internal=False, rows=None, attribute=None), since=None):
            return node, ()
        case _:
            return None
