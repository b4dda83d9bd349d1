"""SELECTs that were made before: equal ones become one, others do not, and mistakes show their own place."""

from __future__ import annotations

from typing import Any

import pytest

from binding.plans import STREAMS
from mullion.algebra.nodes import Aggregated, Project
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.binding import selecting
from mullion.binding.relations import bind
from mullion.errors import CheckError
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, TIMESTAMP


def bound(text: str, streams: Any = STREAMS) -> Relation:
    return bind(parse_query(text, name="q"), streams)


def projected(relation: Relation) -> tuple[Project, Aggregated]:
    root = relation.root
    assert isinstance(root, Project) and isinstance(root.input, Aggregated)
    return root, root.input


def test_queries_that_differ_in_window_and_where_share_their_select() -> None:
    select = "SELECT k, sum(v) / count(*) AS mean FROM a"
    one = projected(bound(f"{select} [RANGE 1 min SLIDE 1 min] WHERE v > 1 GROUP BY k ORDER BY mean"))
    other = projected(bound(f"{select} [RANGE 9 min SLIDE 3 min] WHERE v < 7 GROUP BY k ORDER BY mean"))
    assert one[0].items is other[0].items and one[1].aggregates is other[1].aggregates
    assert (one[1].slide, other[1].slide) == (60_000_000, 180_000_000)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT sum(v) AS x FROM a", "SELECT sum(v) AS X FROM a"),
        ("SELECT sum(v * 0.0D) AS x FROM a", "SELECT sum(v * -0.0D) AS x FROM a"),
        ("SELECT sum(v + 1) AS x FROM a", "SELECT sum(v + 1L) AS x FROM a"),
        ("SELECT sum(v) AS x FROM a", "SELECT sum(v) AS x FROM b"),
        ("SELECT sum(v) AS x FROM a", "SELECT sum(DISTINCT v) AS x FROM a"),
        ("SELECT sum(v) AS x FROM a", "SELECT sum(v) FILTER (WHERE k > 1) AS x FROM a"),
    ],
)
def test_other_selects_are_other_ones(one: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    window = "[RANGE 1 min SLIDE 1 min]"
    for first, second in ((one, other), (other, one)):
        made = [bound(f"{text} {window}") for text in (first, second)]
        alone = []
        for text in (first, second):
            monkeypatch.setattr(selecting, "SELECTS", selecting.Selects())
            alone.append(bound(f"{text} {window}"))
        assert made == alone and made[0] != made[1]


def test_the_same_text_over_another_schema() -> None:
    for type_ in (BIGINT, DOUBLE, BIGINT):
        streams = {"a": Stream("a", (("ts", TIMESTAMP), ("v", type_)), "ts")}
        project, _ = projected(bound("SELECT max(v) AS x FROM a [RANGE 1 min SLIDE 1 min]", streams))
        assert project.items[0][2] == type_


def test_a_mistake_shows_its_own_place() -> None:
    bound("SELECT sum(v) AS x FROM a [RANGE 1 min SLIDE 1 min]")
    text = "SELECT  sum(v) AS x FROM a [RANGE 1 min SLIDE 1 min] WHERE v > nothing"
    with pytest.raises(CheckError) as refused:
        bound(text)
    assert refused.value.place is not None and refused.value.place.text == text


def test_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "MOST_KNOWN", 3)
    selects = selecting.Selects()
    monkeypatch.setattr(selecting, "SELECTS", selects)
    texts = [f"SELECT sum(v + {i}) AS x FROM a [RANGE 1 min SLIDE 1 min]" for i in range(10)]
    made = [bound(text) for text in texts]
    assert len(selects._known) <= 3
    assert made == [bound(text) for text in texts]


OWN_WINDOW = Stream("s", (("ts", TIMESTAMP), ("window", BIGINT), ("window_start", BIGINT), ("v", DOUBLE)), "ts")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT window, count(*) AS n FROM s [c] GROUP BY window",
        "SELECT count(*) AS n FROM s [c] GROUP BY window_start",
        "SELECT window_start AS a, count(*) AS n FROM s [c]",
        "SELECT count(*) AS n FROM s [c] HAVING window_start > TIMESTAMP '2024-01-01'",
        "SELECT window, v FROM s [c]",
        "SELECT v FROM s [c] ORDER BY window_start",
    ],
)
def test_a_column_that_is_called_as_the_window_is_not_taken_for_it(text: str) -> None:
    with pytest.raises(CheckError, match="is the window, and a column as well"):
        bound(text.replace("[c]", "[RANGE 10 s SLIDE 10 s]"), {"s": OWN_WINDOW})


def test_such_a_column_is_written_with_its_stream() -> None:
    window = "[RANGE 10 s SLIDE 10 s]"
    grouped = bound(
        f"SELECT s.window, max(window_start) AS m, window_end AS e FROM s {window} GROUP BY s.window", {"s": OWN_WINDOW}
    )
    assert grouped.names == ("window", "m", "e")
    plain = bound(f"SELECT window_start AS a FROM s {window} ORDER BY s.window_start", {"s": OWN_WINDOW})
    assert plain.names == ("a",) and len(plain.order_by) == 1
