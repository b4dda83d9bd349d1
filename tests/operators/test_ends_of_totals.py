"""ISTREAM and DSTREAM of a total are the differences of what RSTREAM tells, also before its first and after its last
instant, where it has no row: its last row is told as one that ceased, a zero too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from without_spark import local_engine

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, x BIGINT) USING parquet OPTIONS (path 'never read') TIMESTAMP BY ts;"
TOTALS = {
    "count": "SELECT count(*) AS n FROM s [RANGE 4 s SLIDE 2 s] WHERE x > 1",
    "sum": "SELECT sum(x) AS n FROM s [RANGE 4 s SLIDE 2 s]",
    "pairs": "SELECT count(*) AS n FROM s [RANGE 4 s SLIDE 2 s] a, s [RANGE 3 s] b WHERE a.k = b.k AND b.x > 1",
}
Events = Sequence[tuple[int, str, int]]


def told(events: Events, beats: bool) -> dict[str, Counter[tuple[int, Any]]]:
    """What each output tells: the instants, in seconds, and the values."""
    asked = {f"{output}_{name}": f"{output} ({text})" for name, text in TOTALS.items() for output in OUTPUTS}
    with local_engine(STREAM + "".join(f"CREATE QUERY {name} AS {text};" for name, text in asked.items())) as engine:
        for number, (second, k, x) in enumerate(events):
            engine.deliver("s", [{"ts": second * SECOND, "k": k, "x": x}], number)
            later = events[number + 1][0] if number + 1 < len(events) else second + 20
            if beats and later > second:
                engine.advance("s", EPOCH + timedelta(seconds=later))
        engine.end("s")
        rows = {name: engine.results(name).to_arrow().to_pylist() for name in asked}
    return {n: Counter((round(row["window_end"].timestamp()), row["n"]) for row in own) for n, own in rows.items()}


OUTPUTS = ("RSTREAM", "ISTREAM", "DSTREAM")
EVENTS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab"), st.integers(0, 3)), min_size=1, max_size=6)


@example([(1, "a", 1), (2, "b", 2), (20, "a", 1)], True)
@given(
    EVENTS.map(lambda gaps: [(sum(g for g, _, _ in gaps[: i + 1]), k, x) for i, (_, k, x) in enumerate(gaps)]),
    st.booleans(),
)
def test_outputs_are_differences_of_the_whole_result(events: Events, beats: bool) -> None:
    answers = told(events, beats)
    for name in TOTALS:
        whole, new, ceased = (answers[f"{output}_{name}"] for output in OUTPUTS)
        last = dict(whole.keys())
        at = range(min(last) // 2 * 2, max(last) + 4, 2)
        assert all(whole[row] == 1 for row in whole)
        changes = [(instant, last.get(instant, NOTHING), last.get(instant - 2, NOTHING)) for instant in at]
        assert new == Counter((instant, now) for instant, now, then in changes if now not in (then, NOTHING))
        assert ceased == Counter((instant, then) for instant, now, then in changes if then not in (now, NOTHING))


NOTHING = "no row"
