"""Questions that no summary answers, and summaries that cannot be made: each is told with what to do."""

from __future__ import annotations

import pytest

from mullion.errors import MullionError
from runtime.test_summary_answers import SCRIPT, STREAM
from without_spark import local_engine


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (
            "SELECT APPROX count(*) FROM s [RANGE 5 us] WHERE t > 'a'",
            "this condition of SELECT APPROX is not supported",
        ),
        (
            "SELECT APPROX count(*) FROM s [RANGE 5 us] WHERE x = 1 AND t = 'a'",
            "ask about one column, or create a standing query",
        ),
        ("SELECT APPROX count(*) FROM s [RANGE 5 us] WHERE t = 7", "write WHERE column = constant, with a constant of"),
        ("SELECT APPROX count(*) FROM s [RANGE 5 us] WHERE y > 0.5", r"there is no summary on s\(y\)"),
        ("SELECT APPROX y, count(*) FROM s [RANGE 5 us] GROUP BY y", r"there is no summary on s\(y\)"),
        ("SELECT APPROX u, count(*) FROM s [RANGE 5 us] GROUP BY u", r"name them, WHERE u IN \(...\), or use counts"),
        ("SELECT APPROX count(*) FROM s [RANGE 5 us] WHERE u < 7", r"count_sketch does not know which values came"),
        (
            "SELECT APPROX x, count(*) FROM s [RANGE 5 us] WHERE t = 'a' GROUP BY x",
            "group by the column of the summary",
        ),
        ("SELECT APPROX x, t, count(*) FROM s [RANGE 5 us] GROUP BY x, t", "group by the column of the summary"),
        ("SELECT APPROX x, count(*) FROM s [RANGE 5 us] GROUP BY x ORDER BY max(t)", "this form of SELECT APPROX"),
        ("SELECT APPROX count(*) FROM s [RANGE 5 us] HAVING count(*) > 1", "this form of SELECT APPROX"),
        ("SELECT APPROX count(*) FROM s [RANGE 5 us] WHERE z = 7", "unknown column 'z'"),
        ("SELECT APPROX count(*) FROM s [ROWS 5] WHERE x = 1", r"write \[RANGE r\]"),
        ("SELECT APPROX count(*) FROM s [RANGE 5 us] WHERE x = 1 GROUP BY t", "group by the column of the summary"),
        ("SELECT APPROX count(*) AS n, count(*) AS n_LOW FROM s [RANGE 5 us]", "two columns .* are called 'n_LOW'"),
    ],
)
def test_questions_that_no_summary_answers(question: str, message: str) -> None:
    wider = SCRIPT.replace("t STRING)", "t STRING, y DOUBLE, u INT)")
    sketch = "CREATE SUMMARY us ON s(u) WITH GRANULARITY 8 us AND COLLAPSE (2, 3) USING count_sketch;"
    with local_engine(wider + sketch) as engine:
        engine.deliver("s", [{"ts": 1, "x": 1, "t": "a", "y": 0.5, "u": 7}], 0)
        with pytest.raises(MullionError, match=message):
            engine.ask(question)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SUMMARY n ON nowhere(x) WITH GRANULARITY 1 s AND COLLAPSE (2, 2)", "unknown stream 'nowhere'"),
        ("SUMMARY n ON s(y) WITH GRANULARITY 1 s AND COLLAPSE (2, 2)", "unknown column 'y'"),
        ("SUMMARY XS ON s(x) WITH GRANULARITY 1 s AND COLLAPSE (2, 2)", "already a synopsis or summary 'XS'"),
        ("SUMMARY n ON s(x) WITH GRANULARITY 1 s AND COLLAPSE (2, 2) USING count", "did you mean 'counts'"),
        (
            "SUMMARY n ON s(x) WITH GRANULARITY 1 s AND COLLAPSE (2, 2) USING wavelet",
            "there are count_sketch and counts",
        ),
        ("SUMMARY n ON s(x) WITH GRANULARITY 1 s AND COLLAPSE (2, 2) USING counts (width 9)", "has no option 'width'"),
        (
            "SUMMARY n ON s(x) WITH GRANULARITY 1 s AND COLLAPSE (2, 2) USING count_sketch (width 9)",
            "from 16 to 1,048,576",
        ),
        ("SUMMARY n ON s(x) WITH GRANULARITY 1 s AND COLLAPSE (9, 30)", "the oldest granularity is longer"),
        ("SUMMARY n ON s(x) WITH GRANULARITY 1 s AND COLLAPSE (2, 2) USING counts (longest 2 s)", "lower longest"),
        (
            "SUMMARY n ON s(x) WITH GRANULARITY 1 s AND COLLAPSE (2, 2) USING count_sketch MEMORY '1 MB'",
            "MEMORY '1440 KB'",
        ),
        ("SUMMARY n ON shed(x) WITH GRANULARITY 1 s AND COLLAPSE (2, 2)", "'shed', which may shed events"),
    ],
)
def test_summaries_that_cannot_be_made(statement: str, message: str) -> None:
    shed = STREAM.replace("STREAM s", "STREAM shed").replace(" us';", " us' WHEN BEHIND SHED RANDOM;")
    with local_engine(SCRIPT + shed) as engine:
        with pytest.raises(MullionError, match=message):
            engine.execute(f"CREATE {statement}")
        assert "n" not in engine.catalog.synopses
