"""EXPLAIN names clusters and says why they are so, before a batch and once some ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mullion.engine import Engine
from mullion.language.dialect import SECOND
from mullion.options import DEFAULTS
from mullion.planner import few
from mullion.planner.statistics import ONE_GROUP, SampledGroups, Statistics
from mullion.service.explaining import Explainer
from without_spark import local_engine

GOLDEN = Path(__file__).parents[1] / "golden" / "explain_clusters.txt"
SCRIPT = """
CREATE STREAM flights (ts TIMESTAMP, delay BIGINT, origin STRING) USING csv OPTIONS (path 'flights') TIMESTAMP BY ts;
CREATE QUERY days AS SELECT origin, sum(delay) AS s FROM flights [RANGE 2846 min SLIDE 1423 min] GROUP BY origin;
CREATE QUERY longer AS SELECT origin, sum(delay) AS s FROM flights [RANGE 4269 min SLIDE 1423 min] GROUP BY origin;
CREATE QUERY worst AS SELECT origin, max(delay) AS m FROM flights [RANGE 3013 min SLIDE 907 min] WHERE delay > 15
    GROUP BY origin;
CREATE QUERY spread AS SELECT origin, stddev(delay) AS d FROM flights [RANGE 61 min SLIDE 59 min] WHERE delay > 30
    GROUP BY origin;
CREATE QUERY best AS SELECT origin, min(delay) AS m FROM flights [RANGE 1777 min SLIDE 313 min] WHERE delay < 0
    GROUP BY origin;
CREATE QUERY whole AS SELECT sum(delay) AS s FROM flights [RANGE 60 min SLIDE 10 min];
"""


def known() -> Statistics:
    by_origin = SampledGroups(4000, np.full(4000, 1 / 4000), is_exact=True)
    return Statistics(3_000_000, 0, 90 * 86_400 * SECOND - 1, 1000, groups={"origin": by_origin, "()": ONE_GROUP})


def test_explain_of_clusters_reads_like_this() -> None:
    engine = Engine()
    engine.execute(SCRIPT)
    explainer = Explainer(engine.catalog, DEFAULTS, {}, engine.relations, {}, lambda stream, groupings: known())
    told = explainer.explain()
    assert str(told) + "\n" == GOLDEN.read_text(encoding="utf-8")
    assert [plan["cluster"] for plan in told.to_dict()["plans"]] == [f"cluster {i}" for i in range(1, 6)]
    assert str(explainer.explain("worst")).startswith("stream flights, cluster ")


TRADES = """
CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) USING parquet OPTIONS (path 's') TIMESTAMP BY ts;
CREATE QUERY first AS SELECT k, sum(v) AS n FROM s [RANGE 20 us SLIDE 5 us] GROUP BY k;
CREATE QUERY rows AS SELECT sum(v) AS n FROM s [ROWS 3];
"""


def test_once_a_batch_ran_its_plans_are_shown() -> None:
    with local_engine(TRADES) as engine:
        assert "1,080,000 events over 3600 s assumed" in str(engine.explain("first"))
        engine.deliver("s", [{"ts": at, "k": 1, "v": at} for at in range(10)], 0)
        run = engine.runs["s"]
        (own,), (in_order,) = run.sets.values(), run.ordered.sets.values()
        assert own.plan is not None
        shown, ordered = engine.explain().plans
        assert shown.reasons[1:] == own.plan.reasons[1:] and "by operators" in shown.reasons[0].text
        assert (replace(shown, reasons=own.plan.reasons), ordered) == (own.plan, in_order.plan)
        assert engine.explain("rows").plans == (in_order.plan,)
        engine.execute("CREATE QUERY second AS SELECT k, max(v) AS m FROM s [RANGE 20 us SLIDE 5 us] GROUP BY k")
        (plan, _) = engine.explain().plans
        assert [query.name for query in plan.queries] == ["first", "second"], "it enters with the next batch"
        assert engine.explain("rows").plans == (in_order.plan,)
        engine.deliver("s", [{"ts": at, "k": 1, "v": at} for at in range(10, 20)], 1)
        (own,) = run.sets.values()
        assert own.plan is not None and len(own.plan.queries) == 2
        assert replace(engine.explain().plans[0], reasons=own.plan.reasons) == own.plan
        engine.drop("first")
        assert [query.name for query in engine.explain().plans[0].queries] == ["second"]


def test_few_rows_that_are_read_for_others_are_told_as_such() -> None:
    """With a query over the order of events, rows come to the driver anyway."""
    batch = [{"ts": at, "k": 1, "v": at} for at in range(10)]
    with local_engine(TRADES) as engine:
        engine.deliver("s", batch, 0)
        told = str(engine.explain("first"))
        assert told.startswith("stream s: 1 query in one pass, from rows on the driver\n")
        assert "choose_way: rows that are read for others, by the driver: they are few" in told
        assert engine.explain("first").to_dict()["plans"][0]["from_rows"]
    with local_engine(TRADES.replace("[ROWS 3]", "[RANGE 5 us SLIDE 5 us]")) as engine:
        engine.deliver("s", batch, 0)
        assert "from rows" not in str(engine.explain()) and " way\n" in str(engine.explain())


def test_the_plan_of_a_batch_says_whether_the_driver_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few events are taken by the driver, many by tasks; Spark's own partials are always made in tasks."""
    monkeypatch.setattr(few, "FEW", 10)
    script = "".join(TRADES.splitlines(keepends=True)[:-1])
    for way, driver in (("kernel", [True, False, True]), ("native", [False, False, False])):
        with local_engine(script, way=way) as engine:
            told = []
            for batch, size in enumerate((10, 11, 3)):
                engine.deliver("s", [{"ts": 20 * batch + at, "k": 1, "v": at} for at in range(size)], batch)
                assert ("events are few: no tasks, the driver" in str(engine.explain())) == driver[batch]
                told.append(engine.stats["explanation"]["plans"][0]["on_driver"])
            assert told == driver
