"""GROUP BY window(...), HOP and TUMBLE mean what they mean in Spark and Flink: windows start at multiples of the slide.

The meaning is written down here once more, as Spark's documentation has it: an event falls into every [s, s + size)
with s = start + k * slide, and rows are grouped by that window and the keys. `tests/spark/test_window_function.py` asks
Spark itself.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_slices import bind
from mullion.language.parse import parse_query
from mullion.language.query import Named
from mullion.language.render import render
from mullion.reference import answer
from runtime.test_core_differential import Manner, Run
from strategies import TRADES, Event

MANNERS = [Manner(), Manner(batches=3, restart=True), Manner(method="rows"), Manner(slicing="paned")]


def trade(ts: int, symbol: str | None, volume: int) -> Event:
    return dict.fromkeys(TRADES.types) | {"ts": ts, "symbol": symbol, "volume": volume}


events = st.lists(
    st.builds(trade, st.integers(-60, 60), st.sampled_from(("A", "B", None)), st.integers(0, 3)), max_size=12
)
sizes = st.tuples(st.integers(1, 30), st.integers(1, 30), st.sampled_from((0, 0, 1, -1, 7, -7, 100, -100)))


def in_spark(found: list[Event], size: int, slide: int, start: int, *, keyed: bool, least: int) -> list[Any]:
    groups: dict[Any, list[int]] = defaultdict(list)
    for event in found:
        if event["volume"] < least:
            continue
        first = event["ts"] - (event["ts"] - start) % slide
        while first > event["ts"] - size:
            groups[(first, first + size, *((event["symbol"],) if keyed else ()))].append(event["volume"])
            first -= slide
    rows = [(*group, len(values), sum(values)) for group, values in groups.items()]
    return sorted(rows, key=repr)


def texts(size: int, slide: int, start: int, *, keyed: bool, least: int) -> list[str]:
    """All ways to write the same."""
    key = "symbol, " if keyed else ""
    items = f"SELECT {key}count(*), sum(volume) FROM"
    where = f"WHERE volume >= {least} GROUP BY"
    times = f"'{size} us', '{slide} us', '{start} us'"
    hop = f"HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '{slide} us', INTERVAL '{size} us', INTERVAL '{start} us')"
    made = [f"{items} trades {where} {key}window(ts, {times})", f"{items} {hop} {where} {key}window_start, window_end"]
    if start == 0:
        made.append(f"{items} trades {where} window(ts, '{size} us', '{slide} us'){', symbol' if keyed else ''}")
    if size == slide:
        tumble = f"TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '{size} us', INTERVAL '{start} us')"
        made.append(f"{items} TABLE({tumble}) {where} {key}window")
    return made


@pytest.mark.slow
@settings(max_examples=150)
@given(events, sizes, st.booleans(), st.integers(0, 2))
def test_the_reference_answers_as_spark(
    found: list[Event], window: tuple[int, int, int], keyed: bool, least: int
) -> None:
    expected = in_spark(found, *window, keyed=keyed, least=least)
    for text in texts(*window, keyed=keyed, least=least):
        query = parse_query(text)
        assert sorted(answer(query, TRADES, found).rows, key=repr) == expected
        assert parse_query(render(query)) == query


@pytest.mark.slow
@settings(max_examples=60)
@given(events, sizes, st.booleans(), st.integers(0, 2), st.sampled_from(MANNERS))
def test_the_core_answers_as_spark(
    found: list[Event], window: tuple[int, int, int], keyed: bool, least: int, manner: Manner
) -> None:
    """Beside a neighbour in brackets, whose windows end elsewhere."""
    found = sorted(found, key=lambda event: event["ts"])
    own = bind(parse_query(f"CREATE QUERY q AS {texts(*window, keyed=keyed, least=least)[0]}"), {"trades": TRADES})
    other = "CREATE QUERY other AS SELECT count(*) FROM trades [RANGE 12 us SLIDE 5 us] WHERE volume > 1"
    answers = Run(TRADES, [own, bind(parse_query(other), {"trades": TRADES})], manner).over(found)
    assert sorted(answers.get("q", []), key=repr) == in_spark(found, *window, keyed=keyed, least=least)


@pytest.mark.parametrize(
    ("form", "offset"),
    [
        ("'12 min', '5 min'", 2),
        ("'10 min', '5 min'", 0),
        ("'10 min'", 0),
        ("'12 min', '5 min', '1 min'", 3),
        ("'12 min', '5 min', '-3 min'", 4),
        ("'2 min', '5 min'", 2),
    ],
)
def test_the_same_window_in_brackets(form: str, offset: int) -> None:
    source = parse_query(f"SELECT a, count(*) FROM s GROUP BY window(ts, {form}), a").source
    assert isinstance(source, Named) and source.window is not None
    assert source.window.offset == offset * 60_000_000
