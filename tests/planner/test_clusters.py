"""Which queries share slices, by what a batch holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.dialect import SECOND
from mullion.language.parse import parse_query
from mullion.language.query import Period
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.planner.cluster import Cluster
from mullion.planner.clusters import MOST_COMPARED, Clustering, Division, key_set
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.slices import slices_of
from mullion.planner.statistics import ONE_GROUP, SampledGroups, Statistics
from mullion.planner.window_set import WindowSet

FLIGHTS = Stream("flights", (("ts", TIMESTAMP), ("delay", BIGINT), ("origin", STRING)), "ts", 0)
DAYS = 90 * 86_400 * SECOND


def queries(*texts: str) -> list[SlicedAggregation]:
    asked = [parse_query(f"CREATE QUERY q{i} AS {text}") for i, text in enumerate(texts)]
    return [bind(query, {"flights": FLIGHTS}) for query in asked]


def known(events: int = 3_000_000, groups: int = 4000, span: int = DAYS) -> Statistics:
    by_origin = SampledGroups(groups, np.full(groups, 1 / groups), is_exact=True)
    return Statistics(events, 0, span - 1, 1000, groups={"origin": by_origin, "()": ONE_GROUP})


def divided(texts: Sequence[str], statistics: Statistics) -> Division:
    return Clustering(statistics).divide(queries(*texts))


def names(division: Division) -> list[list[str]]:
    return sorted(sorted(query.name for query in cluster) for cluster in division.clusters)


BY_ORIGIN = "SELECT origin, sum(delay) AS s FROM flights [RANGE '{} min' SLIDE '{} min'] GROUP BY origin"
OF_ALL = "SELECT sum(delay) AS s FROM flights [RANGE '{} min' SLIDE '{} min']"


def test_queries_that_have_nothing_in_common_have_slices_of_their_own() -> None:
    windows = (2411, 1423), (3013, 907), (61, 59), (1777, 313), (911, 911)
    texts = [
        BY_ORIGIN.format(*window).replace(" GROUP", f" WHERE delay > {15 * i} GROUP").replace("sum(delay)", aggregate)
        for i, (window, aggregate) in enumerate(
            zip(windows, ("sum(delay)", "max(delay)", "stddev(delay)", "sum(delay * delay)", "min(delay)"), strict=True)
        )
    ]
    division = divided(texts, known())
    assert names(division) == [[f"q{i}"] for i in range(5)]
    assert division.cost < division.together


def test_windows_with_the_same_edges_share_them() -> None:
    assert names(divided([BY_ORIGIN.format(120, 60), BY_ORIGIN.format(180, 60)], known())) == [["q0", "q1"]]


def test_without_groups_windows_share_whatever_their_edges() -> None:
    texts = [OF_ALL.format(60 + i, 7 + i % 5) for i in range(40)]
    assert len(divided(texts, known(span=86_400 * SECOND)).clusters) == 1


def test_of_few_events_there_is_one_cluster() -> None:
    texts = [BY_ORIGIN.format(2411, 1423), BY_ORIGIN.format(3013, 907), OF_ALL.format(61, 7)]
    assert len(divided(texts, known(events=5000)).clusters) == 1


def test_many_predicates_over_one_window_are_one_cluster() -> None:
    texts = [f"{OF_ALL.format(60, 10)} WHERE delay > {i}" for i in range(300)]
    assert len(divided(texts, known()).clusters) == 1


WINDOWS = st.tuples(st.sampled_from((OF_ALL, BY_ORIGIN)), st.integers(1, 600), st.integers(1, 600))
CONDITIONS = st.sampled_from(("", " WHERE delay > 15", " WHERE delay < 0"))


@given(
    st.lists(st.tuples(WINDOWS, CONDITIONS, st.sampled_from(("sum", "max", "stddev", "median"))), max_size=6),
    st.sampled_from((1, 5_000, 300_000, 3_000_000)),
)
def test_where_dividing_is_not_tried_it_would_not_have_been_chosen(
    drawn: list[tuple[tuple[str, int, int], str, str]], events: int
) -> None:
    texts = []
    for (text, range_, slide), where, aggregate in drawn:
        head, by, keys = text.format(range_, slide).replace("sum", aggregate).partition(" GROUP")
        texts.append(head + where + by + keys)

    class Trying(Clustering):
        def _least_divided(self, cluster: Cluster) -> float:
            return 0.0

    own, statistics = queries(*texts), known(events=events)
    tried, division = Trying(statistics).divide(own), Clustering(statistics).divide(own)
    assert names(division) == names(tried)
    assert division.cost == pytest.approx(tried.cost)
    if own and Clustering.is_one(own):
        assert len(tried.clusters) == 1


def test_queries_of_one_shape_are_one_cluster_whatever_a_batch_holds() -> None:
    windows = (60, 7), (61, 11), (907, 311)
    alike = queries(*(BY_ORIGIN.format(*w).replace(" GROUP", f" WHERE delay > {w[0]} GROUP") for w in windows))
    assert Clustering.is_one(alike) and Clustering.is_one(alike[:1])
    (other_keys,) = queries(OF_ALL.format(60, 7))
    (other_states,) = queries(BY_ORIGIN.format(60, 7).replace("sum", "max"))
    (of_no_size,) = queries(BY_ORIGIN.format(60, 7).replace("sum", "approx_count_distinct"))
    for other in (other_keys, other_states):
        assert not Clustering.is_one([*alike, other])
    assert not Clustering.is_one([of_no_size, of_no_size])


@given(
    st.lists(st.tuples(WINDOWS, CONDITIONS, st.sampled_from(("sum", "max", "median"))), min_size=2, max_size=12),
    st.sampled_from((5_000, 300_000, 3_000_000)),
)
def test_a_cluster_that_grew_costs_what_its_queries_cost(
    drawn: list[tuple[tuple[str, int, int], str, str]], events: int
) -> None:
    """What is counted of it as queries come is what would be counted of all of them at once."""
    texts = [
        BY_ORIGIN.format(range_, slide).replace("sum", aggregate).replace(" GROUP", f"{where} GROUP")
        for (_, range_, slide), where, aggregate in drawn
    ]
    clustering, own = Clustering(known(events=events)), queries(*texts)
    merged = clustering._merge(key_set(own[0]), own)
    assert sorted(query.name for cluster in merged for query in cluster.queries) == sorted(query.name for query in own)
    for cluster in merged:
        anew = clustering._cluster(cluster.grouping, cluster.queries)
        assert clustering.cost(cluster) == pytest.approx(clustering.cost(anew))


def test_a_query_goes_where_it_costs_least() -> None:
    texts = [BY_ORIGIN.format(*window) for window in ((120, 60), (907, 311), (180, 60), (1423, 997))]
    texts[1] = texts[1].replace(" GROUP", " WHERE delay > 15 GROUP").replace("sum", "max")
    texts[3] = texts[3].replace(" GROUP", " WHERE delay < 0 GROUP").replace("sum", "stddev")
    first, second, alike, other = queries(*texts)
    clustering, clusters = Clustering(known()), {"a": [first], "b": [second]}
    assert clustering.place(alike, clusters) == "a"
    assert clustering.place(other, clusters) is None


def test_partials_are_reckoned() -> None:
    """4,000 groups in each of two slices a period, 90 days of them, and never more than events."""
    clustering = Clustering(known())
    (own,) = queries(BY_ORIGIN.format(2411, 1423))
    periods = 90 * 1440 / 1423
    assert clustering.partials([[own]]) == pytest.approx(2 * periods * 4000, rel=0.1)
    assert clustering.partials([queries(BY_ORIGIN.format(7, 5))]) <= 3_000_000
    assert clustering.partials([[own], [own]]) == 2 * clustering.partials([[own]])


def test_both_costs_are_told() -> None:
    clustering = Clustering(known())
    first, second, other = queries(BY_ORIGIN.format(120, 60), BY_ORIGIN.format(180, 60), OF_ALL.format(60, 10))
    whole = clustering.text("shared", {"shared": [first, second]})
    assert whole.startswith("all queries share slices: ") and " ms a batch together, " in whole
    clusters = {"cluster 1": [first], "cluster 2": [second], "cluster 3": [other]}
    alone, more = (clustering.cost_of([own]) / 1e3 for own in ([first], [first, second]))
    assert clustering.text("cluster 1", clusters) == (
        f"cluster 1, one of 3: slices of its own, {alone:,.1f} ms a batch; "
        f"in cluster 2, the best other, it would cost {more - clustering.cost_of([[second]]) / 1e3:,.1f} ms"
    )
    assert clustering.text("cluster 3", clusters).endswith(" ms a batch; no other groups by its keys")
    many = {f"cluster {i}": [first] for i in range(MOST_COMPARED + 1)}
    assert clustering.text("cluster 1", many).endswith(" ms a batch")
    assert clustering.text("shared", {"shared": [first]}).startswith("the only query: slices of its own, ")


@pytest.mark.parametrize(
    "windows",
    [
        [Period(18 * SECOND, 15 * SECOND)],
        [Period(30 * SECOND, 15 * SECOND)],
        [Period(18 * SECOND, 15 * SECOND), Period(12 * SECOND, 9 * SECOND)],
        [Period(60 * SECOND, 7 * SECOND), Period(90 * SECOND, 11 * SECOND), Period(45 * SECOND, 13 * SECOND)],
    ],
)
def test_slices_are_estimated(windows: list[Period]) -> None:
    hour = 3600 * SECOND
    assert WindowSet.of(windows).slices_a_microsecond * hour == pytest.approx(
        slices_of(windows, 0, hour, "paired"), rel=0.15
    )


def test_hundreds_of_queries_make_few_clusters() -> None:
    text = BY_ORIGIN.replace(" GROUP", " WHERE delay > {} GROUP")
    asked = queries(*(text.format(60 + i % 7, 10 + i % 3, i) for i in range(300)))
    clusters = Clustering(known()).divide(asked).clusters
    assert sum(map(len, clusters)) == 300 and len(clusters) < 60
