"""The spellings of CQL that the thesis uses mean what Mullion's own do."""

from __future__ import annotations

import pytest

import any_relation
from mullion import reference
from mullion.errors import MullionError
from mullion.language.parse import parse_query
from mullion.language.render import render

JOIN = "FROM a [RANGE 1 min], b [RANGE 1 min] WHERE a.k = b.k"
PERIODIC = "FROM a [RANGE 1 min SLIDE 10 s], b [RANGE 1 min SLIDE 10 s] WHERE a.k = b.k"
OTHERS = "FROM a [RANGE 1 min] WHERE NOT EXISTS (SELECT {} FROM b [RANGE 1 min] WHERE b.k = a.k)"
SPELLINGS = [
    (f"SELECT Rstream(*) {JOIN}", f"RSTREAM (SELECT * {JOIN})"),
    (f"SELECT Istream(a.k, b.w AS x) {JOIN} LIMIT 3", f"ISTREAM (SELECT a.k, b.w AS x {JOIN} LIMIT 3)"),
    (f"SELECT Dstream(*) {JOIN}", f"DSTREAM (SELECT * {JOIN})"),
    ("SELECT Rstream(DISTINCT k) FROM a [RANGE 1 s]", "RSTREAM (SELECT DISTINCT k FROM a [RANGE 1 s])"),
    (f"SELECT Rstream-restore(*) {PERIODIC}", f"RSTREAM RESTORE (SELECT * {PERIODIC})"),
    (f"SELECT ISTREAM RESTORE (*) {PERIODIC}", f"ISTREAM RESTORE (SELECT * {PERIODIC})"),
    (f"SELECT Wstream(*)[ROWS 10] {JOIN}", f"WSTREAM (SELECT * {JOIN}) [ROWS 10]"),
    (f"SELECT Rstream(*) {OTHERS.format('Rstream(*)')}", f"RSTREAM (SELECT * {OTHERS.format('*')})"),
    (
        "SELECT sum(Wstream(sum(v))[ROWS 10]) AS total FROM a [RANGE 6 s SLIDE 6 s] WHERE v > 0",
        "SELECT sum(value) AS total FROM (SELECT sum(v) AS value FROM a [RANGE 6 s SLIDE 6 s] WHERE v > 0) [ROWS 10]",
    ),
]


@pytest.mark.parametrize(("cql", "ours"), SPELLINGS)
def test_two_spellings_of_one_query(cql: str, ours: str) -> None:
    assert parse_query(cql) == parse_query(ours)
    assert parse_query(render(parse_query(cql))) == parse_query(ours)


def test_the_example_of_chunks() -> None:
    """Chunks of 3 us, and the sum of the last two: 1 + 2 = 3, then 4, and 3 + 4 = 7, then 8, and 4 + 8 = 12: each told
    when the chunk is."""
    events = [{"ts": t, "k": 0, "v": v} for t, v in ((0, 1.0), (1, 2.0), (4, 4.0), (6, 8.0))]
    query = parse_query("SELECT sum(Wstream(sum(v))[ROWS 2]) AS total FROM a [RANGE 3 us SLIDE 3 us]")
    answer = reference.answer(query, any_relation.STREAMS, {"a": events, "b": [], "c": []})
    end, total = map(answer.names.index, ("window_end", "total"))
    assert [(row[end], row[total]) for row in answer.rows] == [(3, 3.0), (6, 7.0), (9, 12.0)]


REFUSED = [
    ("SELECT Rstream(k), v FROM a [RANGE 1 s]", "RSTREAM around some of the items"),
    ("SELECT Wstream(*) FROM a [RANGE 1 s]", "expected a window over the results"),
    ("SELECT Wstream-restore(*)[ROWS 3] FROM a [RANGE 1 s]", "RESTORE is for ISTREAM and RSTREAM"),
    ("SELECT sum(Wstream(sum(v))[ROWS 3]) FROM a [RANGE 1 s] GROUP BY k", "in a query with groups"),
    ("SELECT 1 + Wstream(sum(v)) FROM a [RANGE 1 s]", "WSTREAM is no function"),
    ("SELECT sum(Istream(v)) FROM a [RANGE 1 s]", "ISTREAM is no function"),
    ("SELECT Rstream(*) FROM a [RANGE 1 s] UNION ALL SELECT * FROM b [RANGE 1 s]", "RSTREAM in a part of a union"),
    ("RSTREAM (SELECT Istream(*) FROM a [RANGE 1 s])", "RSTREAM around ISTREAM"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_cannot_be_meant_is_refused_with_what_to_write(text: str, why: str) -> None:
    with pytest.raises(MullionError) as raised:
        parse_query(text)
    assert why in str(raised.value)


def test_a_column_may_be_called_like_an_output_stream() -> None:
    assert parse_query("SELECT rstream, istream AS x FROM a [RANGE 1 s]").output is None
