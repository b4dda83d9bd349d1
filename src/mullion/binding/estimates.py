"""What aggregates over all rows are, and how far off that may be, from a sample of the events that rows are made of.

    count(*)    sum(w)                                  w: how many rows a row stands for, the product of its units
    sum(x)      sum(w x)
    avg(x)      sum(w x) / sum(w)
    median(x)   that of x, each w times

A *unit* is what was kept or lost as a whole, by itself, with probability 1 / w: an event of a stream that sheds, or
the probe that was to find a pair. Sums over w estimate without bias what they would be of everything (Horvitz and
Thompson 1952). Their variance, where each row has one unit and no other row has it:

    sum(w (w - 1) x^2)

In a join a unit is in many rows, and these are lost together. With two units i and j, of weights u and v:

    sum over i of u (u - 1) (sum over j of v x_ij)^2
    + sum over j of v (v - 1) (sum over i of u x_ij)^2
    - sum over i, j of u (u - 1) v (v - 1) x_ij^2

and with more the same by inclusion and exclusion: a term for every set of units that rows may have in common. It is
without bias: the covariance of two rows that have the units T in common is the product of their weights less 1, which
is the sum over the sets within T of the products of (w - 1); and each square of a total that is known in part is
put right by the squares of the finer totals (Haas and others 1996, section 4; Nirkhiwale, Dobra and Jermaine, A
Sampling Algebra for Aggregate Estimation, 2013). The average is the ratio of two sums, to the first order.

Where few units are in many rows, that is right on average and too small whenever too little was kept: a sum over m
units that are alike varies like the m that is expected, and is known to vary like the m that came. So samples of joins
may add one unit of each kind, as large as the largest that was kept: sqrt(m + 1) in the place of sqrt(m).

In the join of a stream with itself, an event may stand in several places of a row, and in different places of different
rows. It is one unit: in the first of its places it has its weight, and in the others 1, so that these add nothing. Sets
of units are the same in whichever places they stand: with i and j of one stream, of the weights u and v,

    sum over e of (sum over rows with i = e of sqrt(u (u - 1)) v x + sum over rows with j = e of u sqrt(v (v - 1)) x)^2
    - sum over sets {e, f} of (sum over rows with these two of sqrt(u (u - 1) v (v - 1)) x)^2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations

from mullion.errors import NotSupported
from mullion.language.query import AggregateCall, Call, Case, Cast, Expr, Literal
from mullion.language.types import BIGINT, BOOLEAN, DOUBLE

ONE, ZERO, HALF, TWO, TINY = (Literal(number, DOUBLE) for number in (1.0, 0.0, 0.5, 2.0, 1e-300))
OF_THE_SAMPLE = ("min", "max", "first", "last")
"""Aggregates that are those of the kept events, also in an estimate."""
QUANTILES = {"median": (1,), "percentile": (2,), "approx_percentile": (2, 3)}
"""How many arguments they may have."""
MOST_UNITS = 5
"""Rows of more units have no errors: there is a sum of squares for each set of them."""


@dataclass(frozen=True)
class Unit:
    """What was kept by itself with probability 1 / weight. Units of weight 1 may all have the same id."""

    weight: Expr
    id: Expr
    kind: str | None = None
    """Units of one kind may be the same: the stream of an event. None: it is none of the others."""


@dataclass(frozen=True)
class SampledUnits:
    """Rows by their units."""

    units: tuple[Unit, ...]
    is_alone: bool
    """Whether every unit is in one row alone."""
    adds_one: bool = False
    """Whether errors are those with one more unit of each kind, since few may have been kept."""

    @property
    def weight(self) -> Expr:
        return _product([unit.weight for unit in self.units])

    def estimate(self, node: AggregateCall) -> Expr:
        """What an aggregate would be of everything."""
        if not node.distinct:
            sums = _Sums(self, node)
            match node.function:
                case "count":
                    return Cast(Call("round", (Call("coalesce", (sums.weights(), ZERO)),)), BIGINT)
                case "sum":
                    return sums.values()
                case "avg":
                    return sums.average()
                case function if len(node.args) in QUANTILES.get(function, ()):
                    return self._quantile(node)
        if node.function in OF_THE_SAMPLE and not (node.distinct and node.function not in ("min", "max")):
            return node
        written = f"{node.function}(DISTINCT ...)" if node.distinct else node.function
        hint = "MARK EXACT in CREATE STREAM computes it from the kept events alone"
        raise NotSupported(f"{written} in SELECT APPROX over a stream that may shed", node.place, hint=hint)

    def _quantile(self, node: AggregateCall) -> AggregateCall:
        share = HALF if node.function == "median" else node.args[1]
        between = Literal(node.function != "approx_percentile", BOOLEAN)
        return replace(node, function="weighted_percentile", args=(node.args[0], self.weight, share, between))

    def error(self, node: AggregateCall) -> Expr | None:
        """The standard error of an estimate; None where none is told."""
        if node.distinct or node.function not in ("count", "sum", "avg"):
            return None
        if len(self.units) > MOST_UNITS:
            what = f"the standard error of {node.function} over a join of {len(self.units)} sources that may shed"
            hint = f"let at most {MOST_UNITS} of them shed: the error has a sum for each set of them"
            raise NotSupported(what, node.place, hint=hint)
        sums = _Sums(self, node)
        one = sums.indicator
        x = sums.value if node.args and node.function != "count" else one
        match node.function:
            case "count":
                return Call("sqrt", (_positive(Call("coalesce", (sums.variance(one), ZERO))),))
            case "sum":
                return Call("sqrt", (_positive(sums.variance(x)),))
        mean = sums.average()
        crossed = _product([TWO, mean, sums.covariance(x, one)])
        squared = _product([mean, mean, sums.covariance(one, one)])
        spread = Call("add", (Call("subtract", (sums.covariance(x, x), crossed)), squared))
        return Call("divide", (Call("sqrt", (_positive(sums.widened(spread)),)), sums.weights()))


@dataclass(frozen=True)
class _Sums:
    """Sums over the rows that an aggregate looks at."""

    sample: SampledUnits
    node: AggregateCall

    @property
    def indicator(self) -> Expr:
        """1 for every row that counts."""
        counted = [arg for arg in self.node.args if not isinstance(arg, Literal) or arg.value is None]
        missing = tuple((Call("is_null", (arg,)), Literal(None, DOUBLE)) for arg in counted)
        return Case(missing, ONE) if missing else ONE

    @property
    def value(self) -> Expr:
        return Cast(self.node.args[0], DOUBLE)

    def weights(self) -> Expr:
        return self._sum([self.sample.weight, self.indicator])

    def values(self) -> Expr:
        return self._sum([self.sample.weight, self.value])

    def average(self) -> Expr:
        return Call("divide", (self.values(), self.weights()))

    def variance(self, x: Expr) -> Expr:
        """Of the estimated sum of x."""
        found = self.covariance(x, x)
        return found if not self.sample.adds_one else reduce(lambda a, b: Call("add", (a, b)), self._largest(x), found)

    def widened(self, spread: Expr) -> Expr:
        """What a ratio has as variance, enlarged as that of a count is: by one to two times."""
        if not self.sample.adds_one:
            return spread
        whole = Call("greatest", (self.covariance(self.indicator, self.indicator), TINY))
        more = Call("divide", (self.variance(self.indicator), whole))
        return _product([spread, Call("least", (Call("greatest", (more, ONE)), TWO))])

    def covariance(self, x: Expr, y: Expr) -> Expr:
        """Of the estimated sums of x and y."""
        if self.sample.is_alone:
            (unit,) = self.sample.units
            return self._sum([unit.weight, Call("subtract", (unit.weight, ONE)), x, y])
        if x == y:
            return _total(self._variance_terms(x))
        both = _total(self._variance_terms(Call("add", (x, y))))
        each = Call("add", (self.covariance(x, x), self.covariance(y, y)))
        return Call("multiply", (HALF, Call("subtract", (both, each))))

    def _variance_terms(self, x: Expr) -> Iterator[tuple[bool, Expr]]:
        """For every set of units, what rows with these in common have to do with each other, and whether to add it."""
        for number, args in self._in_common(x, len(self.sample.units)):
            yield number % 2 == 1, AggregateCall("squared_totals", args, where=self.node.where)

    def _largest(self, x: Expr) -> Iterator[Expr]:
        """For every kind of units, what the one adds to the variance that adds most."""
        for _, args in self._in_common(x, 1):
            yield AggregateCall("largest_squared_total", args, where=self.node.where)

    def _in_common(self, x: Expr, most: int) -> Iterator[tuple[int, tuple[Expr, ...]]]:
        """For sets of at most so many units their number, and ids with what rows of these add."""
        units = self.sample.units
        kinds = {unit: unit.kind or f"#{i}" for i, unit in enumerate(units)}
        for number in range(1, most + 1):
            in_places: dict[tuple[str, ...], list[Expr]] = {}
            for common in combinations(units, number):
                factors = [_spread(unit) if unit in common else unit.weight for unit in units]
                ids = reduce(lambda a, b: Call("bitxor", (a, b)), [unit.id for unit in common])
                same = in_places.setdefault(tuple(sorted(kinds[unit] for unit in common)), [])
                same += [ids, _product([*factors, x])]
            for args in in_places.values():
                yield number, tuple(args)

    def _sum(self, factors: list[Expr]) -> Expr:
        return AggregateCall("sum", (_product(factors),), where=self.node.where)


def _spread(unit: Unit) -> Expr:
    return Call("sqrt", (Call("multiply", (unit.weight, Call("subtract", (unit.weight, ONE)))),))


def _positive(expr: Expr) -> Expr:
    """A variance that is estimated without bias may come out below 0."""
    return Call("greatest", (expr, ZERO))


def _product(factors: list[Expr]) -> Expr:
    return reduce(lambda a, b: Call("multiply", (a, b)), factors)


def _total(terms: Iterator[tuple[bool, Expr]]) -> Expr:
    """The terms added or subtracted; the first is added."""
    _, first = next(terms)
    return reduce(lambda total, term: Call("add" if term[0] else "subtract", (total, term[1])), terms, first)
