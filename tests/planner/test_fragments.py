"""The predicate index gives what evaluating every predicate on every event gives."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.expressions.evaluate import evaluate
from mullion.expressions.typing import resolve_predicate
from mullion.expressions.vector import Vector
from mullion.kernels.columns import BatchColumns
from mullion.language.parse import parse_expression
from mullion.language.query import Expr
from mullion.language.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    decimal,
)
from mullion.planner.comparisons import compared_in
from mullion.planner.fragments import PredicateIndex
from mullion.slices.kernels import selection as selecting
from mullion.slices.kernels.region_search import find_regions
from mullion.slices.kernels.selection import Compared, Selection
from mullion.slices.kernels.signature import FEW_PREDICATES, Masks, bytes_for, few_fragments, fragments, masks, unpack
from strategies import Draw

Row = Mapping[str, Any]
Rows = Sequence[Row]

TYPES: dict[str, Type] = {
    "t": TINYINT,
    "h": SMALLINT,
    "i": INT,
    "j": INT,
    "b": BIGINT,
    "f": FLOAT,
    "x": DOUBLE,
    "y": DOUBLE,
    "m": decimal(10, 2),
    "w": decimal(38, 0),
    "s": STRING,
    "r": STRING,
    "p": BOOLEAN,
    "d": DATE,
    "z": TIMESTAMP,
    "n": TIMESTAMP_NTZ,
}
DAY = 86_400_000_000
WHOLE = (0, 1, 2, 3, -1, -2, 100, None)
REAL = (0.0, -0.0, 1.0, 2.0, 2.5, -2.5, 1e10, 1e300, math.nan, math.inf, -math.inf, None)
TEXTS = ("", "a", "ab", "abc", "b", "A", "ä", "äb", "a%", "a_c", "\ud7ff", "\ue000", "a\U0010ffff", "\U0010ffffz", None)
DAYS = (0, 1, -1, 19_723, None)
TIMES = (0, -1, 1, DAY, 19_723 * DAY, 19_723 * DAY + 1, None)
VALUES: dict[str, tuple[Any, ...]] = {
    "t": (*WHOLE, 127, -128),
    "h": (*WHOLE, 2**15 - 1, -(2**15)),
    "i": (*WHOLE, 2**31 - 1, -(2**31)),
    "j": WHOLE,
    "b": (*WHOLE, 10**10, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)),
    "f": tuple(v if v is None else float(np.float32(min(v, 3e38))) if v == v else v for v in (*REAL, 0.1)),
    "x": (*REAL, 0.1, float(2**53)),
    "y": REAL,
    "m": tuple(None if v is None else Decimal(v) for v in ("0.00", "2.00", "2.50", "-2.50", "99999999.99", None)),
    "w": tuple(None if v is None else Decimal(v) for v in ("0", "2", "-2", "9" * 38, None)),
    "s": TEXTS,
    "r": TEXTS,
    "p": (True, False, None),
    "d": DAYS,
    "z": TIMES,
    "n": TIMES,
}

NUMBERS = (
    "0", "1", "2", "3", "-1", "-2", "100", "127", "128", "-129", "2147483647", "2147483648", "9223372036854775807",
    "2.5", "2.0", "-2.5", "0.1", "2.500", "99999999.99", "1e10", "1e10D", "2.5D", "-0.0D", "0.0D", "1e300", "1e38D",
    "9007199254740993", "9007199254740992.0D", "99999999999999999999999999999999999999", "12345678901234567890.5",
    "double('NaN')", "double('Infinity')", "double('-Infinity')", "CAST(2.5 AS FLOAT)", "CAST(0.1 AS FLOAT)", "NULL",
)  # fmt: skip
STRINGS = (*tuple(f"'{t}'" for t in TEXTS if t is not None), "NULL")
DATES = ("DATE '1970-01-01'", "DATE '1970-01-02'", "DATE '2024-01-01'", "DATE '1969-12-31'", "NULL")
INSTANTS = (*DATES, "TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '2024-01-01 00:00:00.000001'")
LOCAL = ("TIMESTAMP_NTZ '1970-01-01 00:00:00'", "TIMESTAMP_NTZ '2024-01-01 00:00:00.000001'", "NULL")
CONSTANTS: dict[str, tuple[str, ...]] = dict.fromkeys("thijbfxymw", NUMBERS) | {
    "s": STRINGS,
    "r": STRINGS,
    "p": ("true", "false", "NULL"),
    "d": DATES,
    "z": INSTANTS,
    "n": LOCAL,
}
EXPRESSIONS = {"i": ("i", "i + j", "abs(i)"), "x": ("x", "-x", "x * 2"), "s": ("s", "upper(s)", "s || r")}
LIKES = ("'a%'", "'%'", "''", "'ab'", "'a_c'", "'%b'", "'a%c'", "'ä%'", "'a\\\\%'", "'a%%'", "'\U0010ffff%'")
LIKES += ("'a\U0010ffff%'", "'\ud7ff%'")
OPAQUE = ("i = j", "x < y", "s = r", "s < r", "p", "i + j > b", "x = x", "coalesce(p, i > 1)", "true", "isnan(x)")
OPAQUE += ("CASE WHEN p THEN i ELSE j END > 1", "NULL", "i / j > 1", "rlike(s, '^a')", "i > 2.5 = p")


@st.composite
def atoms(draw: Draw[Any]) -> str:
    name = draw(st.sampled_from(sorted(TYPES)))
    value = draw(st.sampled_from(EXPRESSIONS.get(name, (name,))))
    constants = st.sampled_from(CONSTANTS[name])
    kind = draw(st.sampled_from(("compare", "compare", "mirror", "between", "in", "in", "null", "text", "opaque")))
    if kind == "compare":
        return f"{value} {draw(st.sampled_from(OPERATORS))} {draw(constants)}"
    if kind == "mirror":
        return f"{draw(constants)} {draw(st.sampled_from(OPERATORS))} {value}"
    if kind == "between":
        return f"{value} BETWEEN {draw(constants)} AND {draw(constants)}"
    if kind == "in":
        return f"{value} IN ({', '.join(draw(st.lists(constants, min_size=1, max_size=4)))})"
    if kind == "null":
        return f"{value} IS {draw(st.sampled_from(('', 'NOT ')))}NULL"
    if kind == "opaque":
        return str(draw(st.sampled_from(OPAQUE)))
    if draw(st.booleans()):
        return f"startswith({draw(st.sampled_from(('s', 'r')))}, {draw(st.sampled_from(STRINGS))})"
    return f"{draw(st.sampled_from(('s', 'r', 'upper(s)')))} LIKE {draw(st.sampled_from(LIKES))}"


OPERATORS = ("<", "<=", "=", "<>", ">=", ">", "<=>")


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(parts, st.sampled_from(("AND", "OR")), parts).map(lambda p: f"({p[0]}) {p[1]} ({p[2]})")
    return pairs | parts.map(lambda p: f"NOT ({p})")


predicates = st.recursive(atoms(), _joined, max_leaves=5)
rows = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})


def resolved(text: str) -> Expr:
    return resolve_predicate(parse_expression(text), TYPES)


def columns_of(events: Rows, form: str = "plain") -> BatchColumns:
    arrays = {name: Vector.of(type_, [e[name] for e in events]).to_arrow() for name, type_ in TYPES.items()}
    if form == "dictionary":
        arrays = {n: a.dictionary_encode() if pa.types.is_string(a.type) else a for n, a in arrays.items()}
    table = pa.table(arrays)
    if form == "chunks":
        table = pa.concat_tables([table[: len(events) // 3], table[len(events) // 3 :]])
    return BatchColumns.of(table, TYPES)


def plainly(expressions: Sequence[Expr], events: Rows) -> list[list[bool]]:
    """For each predicate, whether it is true of each event."""
    vectors = {name: Vector.of(type_, [e[name] for e in events]) for name, type_ in TYPES.items()}
    return [[v is True for v in evaluate(expr, vectors, len(events)).to_list()] for expr in expressions]


def regions(index: PredicateIndex, columns: BatchColumns) -> tuple[Selection, int]:
    return Selection(Compared.of([index]), columns), columns.length


def by_selection(index: PredicateIndex, columns: BatchColumns) -> list[list[bool]]:
    selection, length = regions(index, columns)
    held = [np.broadcast_to(selection.selected(tree), (length,)).astype(np.bool_) for tree in index.trees]
    return [list(map(bool, own)) for own in held]


def by_spans(index: PredicateIndex, columns: BatchColumns) -> list[list[bool]]:
    """As where there are many events: regions that follow one another are not looked up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selecting, "MANY_EVENTS", 0)
        return by_selection(index, columns)


def by_fragments(index: PredicateIndex, columns: BatchColumns) -> list[list[bool]]:
    found = fragments(index, *regions(index, columns))
    assert found.signatures.shape[1] == bytes_for(len(index))
    assert len({row.tobytes() for row in found.signatures}) == len(found.signatures)
    satisfied = unpack(found.signatures, len(index))
    return satisfied[found.number].T.tolist()


def by_few_fragments(index: PredicateIndex, columns: BatchColumns) -> list[list[bool]]:
    """Eight predicates at a time."""
    selection, length = regions(index, columns)
    satisfied: list[list[bool]] = []
    for at in range(0, len(index.trees), FEW_PREDICATES):
        trees = index.trees[at : at + FEW_PREDICATES]
        found = few_fragments([selection.selected(tree) for tree in trees], length)
        assert len({row.tobytes() for row in found.signatures}) == len(found.signatures)
        satisfied += unpack(found.signatures, len(trees))[found.number].T.tolist()
    return satisfied


def by_masks(index: PredicateIndex, columns: BatchColumns) -> list[list[bool]]:
    found: Masks = masks(index, *regions(index, columns), len(index) + 1)
    rows = found.table[found.first[:, None] + found.codes]
    satisfied = rows.min(axis=0) == 1
    assert satisfied[:, -1].all()
    return satisfied[:, :-1].T.tolist()


def check(texts: Sequence[str], events: Rows, form: str = "plain") -> None:
    expressions = [resolved(text) for text in texts]
    wanted = plainly(expressions, events)
    index = PredicateIndex(expressions, TYPES)
    ways = {
        "fragments": by_fragments,
        "few fragments": by_few_fragments,
        "masks": by_masks,
        "selection": by_selection,
        "spans": by_spans,
    }
    for way, found in ways.items():
        for text, got, right in zip(texts, found(index, columns_of(events, form)), wanted, strict=True):
            wrong = [e for e, a, b in zip(events, got, right, strict=True) if a != b]
            assert not wrong, f"{way}: {text}\n{wrong[0]}"


def event(**values: Any) -> Row:
    return dict.fromkeys(TYPES) | values


def test_three_predicates_of_two_attributes() -> None:
    texts = ["i > 2", "i <= 1 OR x = 10", "x = 10"]
    events = [event(i=1), event(i=2, x=10.0), event(i=3, x=10.0), event(x=10.0), event()]
    expressions = [resolved(text) for text in texts]
    assert plainly(expressions, events) == [
        [False, False, True, False, False],
        [True, True, True, True, False],
        [False, True, True, True, False],
    ]
    index = PredicateIndex(expressions, TYPES)
    assert len(fragments(index, *regions(index, columns_of(events))).signatures) == 4
    check(texts, events)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.slow
def test_every_value_with_every_constant(name: str) -> None:
    events = [event(**{name: value}) for value in VALUES[name]]
    texts = [f"{name} {op} {constant}" for constant in CONSTANTS[name] for op in OPERATORS]
    texts += [f"{constant} {op} {name}" for constant in CONSTANTS[name] for op in OPERATORS]
    texts += [f"{name} IN ({a}, {b})" for a in CONSTANTS[name] for b in (*CONSTANTS[name][:4], "NULL")]
    check([*texts, f"{name} IS NULL", f"{name} IS NOT NULL"], events)


def test_every_text_with_every_pattern() -> None:
    events = [event(s=value) for value in TEXTS]
    texts = [f"s LIKE {pattern}" for pattern in LIKES] + [f"startswith(s, {text})" for text in STRINGS]
    check([*texts, *(f"NOT ({text})" for text in texts)], events)


@settings(max_examples=50)
@given(
    st.lists(predicates, min_size=1, max_size=12),
    st.lists(rows, max_size=25),
    st.sampled_from(("plain", "chunks", "dictionary")),
)
def test_random_predicates(texts: list[str], events: Rows, form: str) -> None:
    check(texts, events, form)


@pytest.mark.slow
@settings(max_examples=8)
@given(st.lists(predicates, min_size=60, max_size=150), st.lists(rows, min_size=5, max_size=40))
def test_many_predicates_together(texts: list[str], events: Rows) -> None:
    check(texts, events)


DOUBLES = st.one_of(st.floats(allow_nan=False), st.floats(-100, 100), st.floats(0, 1).map(lambda x: 1e6 * x**9))
NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-50, 50), st.integers(0, 30).map(lambda x: 2**x))


@given(st.sampled_from([(DOUBLES, np.float64), (NUMBERS, np.int64)]), st.data())
def test_regions_are_those_of_a_search(kind: tuple[st.SearchStrategy[Any], Any], data: st.DataObject) -> None:
    of, dtype = kind
    constants = sorted({c + 0 for c in data.draw(st.lists(of, max_size=60))})
    values = [*constants, *data.draw(st.lists(of, max_size=60))] * data.draw(st.sampled_from([1, 100]))
    out = np.empty(len(values), np.int32)
    find_regions(np.array(constants, dtype), np.array(values, dtype), out)
    below = [bisect_left(constants, value) for value in values]
    assert out.tolist() == [2 * at + (value in constants[at : at + 1]) for at, value in zip(below, values, strict=True)]


def test_what_a_predicate_compares_is_told_once() -> None:
    found = compared_in(resolved("i / j > 1 AND (i / j < 5 OR NOT x = 2) AND s LIKE 'a%'"))
    assert found == tuple(resolved(f"{text} IS NULL").args[0] for text in ("i / j", "x", "s"))  # type: ignore[union-attr]


def test_no_predicates() -> None:
    index = PredicateIndex([], TYPES)
    columns = columns_of([event(), event(i=1)])
    assert fragments(index, *regions(index, columns)).number.tolist() == [0, 0]
    assert masks(index, *regions(index, columns), 1).table.tolist() == [[1]]
