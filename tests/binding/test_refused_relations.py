"""What the binder refuses of queries over relations, with the place and a reason."""

from __future__ import annotations

import re

import pytest

from binding.plans import STREAMS, TABLES, full
from mullion.binding.relations import bind
from mullion.errors import TextError
from mullion.language.parse import parse_query

REFUSED = [
    (
        "SELECT a.k FROM a [], «b []»",
        "no condition joins 'b' to 'a'\n  join them by an equality, such as WHERE a.k = b.k",
    ),
    ("SELECT a.k FROM a [], b [], «c []» WHERE a.k = b.k", "no condition joins 'c' to 'a'\n"),
    ("SELECT a.k FROM a [], «b []» WHERE a.v < b.v", "no condition joins"),
    (
        "SELECT a.k FROM «a [] LEFT JOIN b [] ON a.k = b.k»",
        "a LEFT JOIN of two streams is not supported yet\n  write NOT EXISTS",
    ),
    ("SELECT a.k FROM «a [] FULL JOIN b [] ON a.k = b.k»", "a FULL JOIN of two streams"),
    ("SELECT a.k FROM «t RIGHT JOIN a [] ON a.k = t.k»", "RIGHT JOIN is not supported yet\n  write LEFT JOIN"),
    (
        "SELECT a.k FROM a [], b «[RANGE 1 min SLIDE 2 min]» WHERE a.k = b.k",
        "a query over windows of different SLIDEs .*\n  give all windows of the query the same SLIDE",
    ),
    ("SELECT a.k FROM a [], b «[RANGE 1 min SLIDE 1 min OFFSET 1 s]» WHERE a.k = b.k", ".* different SLIDEs"),
    (
        "SELECT k FROM a [] WHERE EXISTS (SELECT 1 FROM c «[RANGE 1 min SLIDE 2 min]» WHERE c.k = a.k)",
        ".* different SLIDEs",
    ),
    ("SELECT k FROM a [] UNION ALL SELECT k FROM b «[RANGE 1 min SLIDE 2 min]»", ".* different SLIDEs"),
    (
        "SELECT DISTINCT k FROM a «[RANGE 1 h INTERNAL]»",
        "what DISTINCT or EXISTS returns must expire, so its windows cannot be INTERNAL\n  leave INTERNAL out",
    ),
    (
        "SELECT k FROM a «[RANGE 1 h INTERNAL]» WHERE NOT EXISTS (SELECT 1 FROM b [c] WHERE b.k = a.k)",
        "what NOT EXISTS returns must expire",
    ),
    (
        "SELECT k FROM a [] WHERE NOT EXISTS (SELECT 1 FROM b «[ROWS 5 INTERNAL]» WHERE b.k = a.k)",
        "what NOT EXISTS returns",
    ),
    (
        "SELECT k FROM a [c] WHERE EXISTS (SELECT 1 FROM b «[RANGE 1 h INTERNAL]» WHERE b.k = a.k)",
        "what DISTINCT or EXISTS",
    ),
    ("SELECT k FROM a [c] EXCEPT ALL SELECT k FROM b «[ROWS 5 INTERNAL]»", "what EXCEPT ALL returns"),
    (
        "SELECT DISTINCT s.n FROM (SELECT k, count(*) AS n FROM a «[RANGE 1 h INTERNAL]» GROUP BY k) s",
        "what DISTINCT or EXISTS returns",
    ),
    ("SELECT count(*) AS n FROM a [] WHERE «a.nothing» > 1", "unknown column 'nothing'"),
    ("SELECT count(*) AS n FROM a [] WHERE «b.k» > 1", "unknown stream or alias 'b'"),
    ("SELECT k FROM «a»", "stream 'a' needs a window\n  write one after its name"),
    ("SELECT k FROM a «[RANGE 1 min SLIDE 5 TUPLES]»", "SLIDE by TUPLES in this query"),
    ("SELECT k FROM a «[PARTITION BY k ROWS 5 SLIDE 2]»", "PARTITION BY with SLIDE"),
    (
        "SELECT k FROM a «[RANGE 1 min WATTR v]»",
        "WATTR in this query .*\n  windows of rows and joins go over the event time, ts",
    ),
    ("SELECT k FROM a «[RANGE 1 min WATTR tss]»", "unknown column 'tss' in a\n  did you mean 'ts'"),
    ("SELECT k FROM (SELECT k FROM a [c]) «[PARTITION BY k ROWS 1]»", "PARTITION BY in a window over results"),
    ("SELECT k FROM «(SELECT k FROM a []) [RANGE 1 h]»", "a window over the rows of a query with SLIDE"),
    ("SELECT j FROM a [] JOIN b [] ON a.v = b.v JOIN c [] USING («k»)", "column .k. is ambiguous\n  write a.k or b.k"),
    ("SELECT j FROM a [] JOIN b [] USING (k) JOIN c [] USING («j»)", "unknown column .j."),
    ("SELECT «kk» FROM a []", "unknown column 'kk'\n  did you mean 'k'"),
    ("SELECT «a.kk» FROM a [], b [] WHERE a.k = b.k", "unknown column 'kk' in a\n  did you mean 'k'"),
    ("SELECT «k» FROM a [], b [] WHERE a.k = b.k", "column 'k' is ambiguous\n  write a.k or b.k"),
    ("SELECT «aa.k» FROM a [], b [] WHERE a.k = b.k", "unknown stream, table or alias 'aa'\n  did you mean 'a'"),
    ("SELECT «aa.*» FROM a [], b [] WHERE a.k = b.k", "unknown stream, table or alias 'aa'\n  did you mean 'a'"),
    (
        "SELECT a2.k FROM a [] a2 WHERE «a.v» > 1",
        "unknown stream, table or alias 'a'\n  its alias hides the name 'a': write a2.v",
    ),
    ("SELECT «A.*» FROM a [] a2, b [] WHERE a2.k = b.k", r"unknown .* 'A'\n  its alias hides .* write a2\.\*"),
    ("SELECT count(*) AS n FROM a [] a2 WHERE «a.v» > 1", "unknown stream or alias 'a'\n  .* write a2.v"),
    ("SELECT a2.k FROM a [] a2 GROUP BY «a.k»", "unknown .* 'a'\n  .* write a2.k"),
    ("SELECT x.k FROM a [] x, a [] y WHERE x.k = y.k AND «a.v» > 1", "unknown .* 'a'\n  .* write x.v or y.v"),
    ("SELECT a.k FROM a [], t t2 WHERE a.k = t2.k AND «t.v» > 1", "unknown .* 't'\n  .* write t2.v"),
    ("SELECT a.k FROM a [] JOIN b [] b2 ON a.k = «b.k»", "unknown .* 'b'\n  .* write b2.k"),
    ("SELECT x.k FROM (SELECT «a.k» FROM a [c] a2) x", "unknown .* 'a'\n  .* write a2.k"),
    (
        "SELECT k FROM b [] WHERE EXISTS (SELECT 1 FROM a [] a2 WHERE «a.k» = b.k)",
        "unknown .* 'a'\n  .* write a2.k",
    ),
    (
        "SELECT k FROM a [] a2 WHERE NOT EXISTS (SELECT 1 FROM b [] WHERE b.k = «a.k»)",
        "unknown .* 'a'\n  .* write a2.k",
    ),
    ("SELECT k FROM «bb [c]»", "unknown stream or table 'bb'\n  did you mean 'b'"),
    ("SELECT x.k FROM a [] x, «b [] x» WHERE x.k = x.k", "two sources are called 'x'"),
    ("SELECT a.k FROM a [], «t»", "no condition joins table 't' to the stream"),
    ("SELECT t.k FROM «t»", "'t' is a table, and a query needs a stream"),
    ("SELECT a.k FROM a [], t «[]» WHERE a.k = t.k", "'t' is a table and has no window"),
    (
        "SELECT x.k FROM (SELECT k FROM a [c]) x, «t» WHERE x.k = t.k",
        "a table joined to the result of a query .*\n  join the table to the stream within",
    ),
    (
        "SELECT k FROM a [] WHERE v > 1 OR «EXISTS (SELECT 1 FROM b [] WHERE b.k = a.k)»",
        "EXISTS within an expression .*\n  write it as a condition",
    ),
    (
        "SELECT k FROM a [] WHERE EXISTS (SELECT 1 FROM c [] WHERE «c.j < a.v»)",
        "this condition of EXISTS .*\n  compare with the outer query by equalities",
    ),
    ("SELECT k FROM a [] WHERE EXISTS (SELECT 1 FROM c [] WHERE c.k = a.k AND «a.v > 1»)", "this condition of EXISTS"),
    ("SELECT k FROM a [] WHERE «EXISTS (SELECT 1 FROM c [])»", "no equality correlates this EXISTS"),
    (
        "SELECT k FROM a [] WHERE EXISTS (SELECT «jj» FROM c [] WHERE c.k = a.k)",
        "unknown column 'jj'\n  did you mean 'j'",
    ),
    (
        "SELECT k FROM a [] WHERE EXISTS («SELECT k FROM c [] WHERE c.k = a.k GROUP BY k»)",
        "an aggregate directly in EXISTS .*\n  group in FROM",
    ),
    ("SELECT k FROM a [] WHERE NOT EXISTS («SELECT k FROM c [] WHERE c.k = a.k LIMIT 1»)", "LIMIT directly in EXISTS"),
    ("SELECT k FROM a [] WHERE «initcap(k)» = 'X'", "initcap in this query"),
    ("SELECT «initcap(k)» AS i FROM a []", "initcap in this query"),
    ("SELECT count(*) FROM a [], b [] WHERE «initcap(a.k)» = b.k", "initcap in this query"),
    ("SELECT max(«initcap(a.k)») AS i FROM a [], b [] WHERE a.k = b.k", "initcap in this query"),
    ("SELECT «cout(k)» FROM a []", "unknown function 'cout'\n  did you mean 'count'"),
    (
        "SELECT «a.v», count(*) FROM a [], b [] WHERE a.k = b.k GROUP BY a.k",
        "column 'v' is neither grouped nor aggregated",
    ),
    ("SELECT a.k FROM a [], b [] WHERE a.k = b.k AND «count(*)» > 1", "an aggregate is not allowed in WHERE"),
    ("SELECT «*», count(*) FROM a [], b [] WHERE a.k = b.k", r"SELECT \* beside aggregates"),
    ("SELECT «window_end» + INTERVAL 1 MINUTE AS e FROM a []", "window_end in an expression of this query"),
    ("SELECT a.k, «b.k» FROM a [], b [] WHERE a.k = b.k", "two columns of the answer are called 'k'\n  give one an AS"),
    ("SELECT k, «v AS window_end» FROM a []", "a column of the answer cannot be called 'window_end'"),
    ("«SELECT v AS Sign FROM a []»", "a column of the answer cannot be called 'Sign'\n  it is one of inserted_at"),
    ("SELECT DISTINCT k FROM a [] ORDER BY «v»", "with DISTINCT, ORDER BY takes columns of the answer"),
    ("SELECT k FROM a [] UNION ALL «SELECT k, v FROM b []»", "this part has 2 columns, and the first part has 1"),
    (
        "«SELECT v FROM a [] UNION ALL SELECT ts FROM b []»",
        r"column 'v' has no type common to all parts \(int, timestamp\)\n  CAST it",
    ),
    (
        "SELECT k FROM a [] UNION ALL SELECT k FROM b [] ORDER BY «v»",
        "the parts' answer has no column 'v'\n  order by one of k",
    ),
    ("SELECT k FROM a [] UNION ALL (SELECT k FROM b [] ORDER BY «k»)", "ORDER BY in a part of a union"),
    ("SELECT k FROM a [] EXCEPT ALL («ISTREAM (SELECT k FROM b [])»)", "ISTREAM in a part of a union"),
    ("SELECT k FROM («SELECT k FROM a [] LIMIT 3»)", "LIMIT in a sub-query"),
    ("SELECT k FROM («ISTREAM (SELECT k FROM a [])»)", "ISTREAM in FROM .*\n  write "),
    ("SELECT k FROM («DSTREAM (SELECT k FROM a [c])») [RANGE 1 h]", "DSTREAM in FROM"),
    ("«SELECT k FROM a [c] LIMIT 3»", "LIMIT with a result that is answered by its changes .*\n  write RSTREAM"),
    ("«ISTREAM RESTORE (SELECT k FROM a [c])»", "RESTORE needs windows with a SLIDE"),
    ("«RSTREAM RESTORE (SELECT count(*) FROM a [])»", "RESTORE is for rows"),
    ("CREATE QUERY q MATERIALIZED AS «ISTREAM (SELECT k FROM a [c])»", "MATERIALIZED with ISTREAM"),
    ("CREATE QUERY q MATERIALIZED AS «SELECT k FROM a [] LIMIT 3»", "LIMIT with MATERIALIZED"),
]


@pytest.mark.parametrize(("marked", "message"), REFUSED)
def test_what_is_refused_names_its_place(marked: str, message: str) -> None:
    before, _, rest = full(marked).partition("«")
    place, _, after = rest.partition("»")
    with pytest.raises(TextError) as refused:
        bind(parse_query(before + place + after), STREAMS, TABLES)
    error = refused.value
    assert re.match(message, error.message + (f"\n  {error.hint}" if error.hint else "")), str(error)
    assert error.place is not None and error.place.start == len(before)
    assert error.place.text[error.place.start : error.place.end] == place
