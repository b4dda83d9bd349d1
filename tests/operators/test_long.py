"""Long runs: rows are forgotten, codes used again and sub-windows merged, and all strategies still say the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from changing import COUNTED, TIMED, Life, Row, Told, by_negative_tuples, play, rows_of
from mullion.algebra.nodes import AntiJoin, Difference, Distinct
from mullion.language.query import Column
from mullion.operators.anti_join import AntiJoinOperator
from mullion.operators.base import Operator
from mullion.operators.construction import Construction
from mullion.operators.difference import DifferenceOperator
from mullion.operators.distinct import DistinctOperator
from mullion.options import Expiry

K = (Column("k"),)
EVENTS, LENGTH = 4_000, 250


def window(seed: int, values: int) -> list[Row]:
    """Values change slowly: most of them come, stay for a while and never come again."""
    random = np.random.default_rng(seed)
    drawn = random.integers(0, values, EVENTS) + np.arange(EVENTS) // 20
    return rows_of(*(((int(k), 0.0), at, at + LENGTH) for at, k in enumerate(drawn)))


def chosen(strategy: str) -> Construction:
    return Construction(Expiry(strategy))


Make = Callable[[str, bool], Operator]
OPERATORS: dict[str, Make] = {
    "distinct": lambda strategy, strict: DistinctOperator(
        Distinct(COUNTED if strict else TIMED), [Told()], chosen(strategy)
    ),
    "negation": lambda strategy, strict: AntiJoinOperator(
        AntiJoin(COUNTED if strict else TIMED, COUNTED if strict else TIMED, K, K),
        [Told(), Told()],
        chosen(strategy),
    ),
    "difference": lambda strategy, strict: DifferenceOperator(
        Difference(COUNTED if strict else TIMED, COUNTED if strict else TIMED),
        [Told(), Told()],
        chosen(strategy),
    ),
}


def told(name: str, strategy: str, *, strict: bool, step: int, restarts: bool = False) -> tuple[list[Life], int]:
    """The lives that an operator tells, and the most rows that it held."""
    inputs = [window(1, 60), window(2, 90)][: 1 if name == "distinct" else 2]
    if strict or strategy == "nt":
        inputs = [by_negative_tuples(rows) for rows in inputs]
    times = [*range(step, EVENTS + LENGTH, step), 2 * EVENTS]
    held = [0]
    lives = play(
        lambda: OPERATORS[name](strategy, strict),
        inputs,
        times,
        restarts=restarts,
        watch=lambda operator, heard: held.append(operator.rows_held),
    )
    return lives, max(held)


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True], ids=["weakest", "strict"])
@pytest.mark.parametrize("name", OPERATORS)
def test_all_strategies_say_the_same(name: str, strict: bool) -> None:
    expected, held = told(name, "upa", strict=strict, step=193)
    assert len(expected) > 250
    assert held < EVENTS, "what has ended is forgotten"
    for strategy in ("upa", "nt", "scan"):
        assert told(name, strategy, strict=strict, step=1_000)[0] == expected, strategy
    assert told(name, "upa", strict=strict, step=300, restarts=True)[0] == expected
    assert told(name, "nt", strict=strict, step=300, restarts=True)[0] == expected
