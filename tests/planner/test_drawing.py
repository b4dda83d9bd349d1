"""Plans as drawings: every box has its place, and its text is inside."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.algebra.relation import Relation
from mullion.engine import Engine
from mullion.planner.drawing import LETTER, LONGEST, Box, svg
from relational_plans import NEGATION_ABOVE, NEGATION_BELOW, as_written

SCRIPT = (Path(__file__).parents[1] / "golden" / "explain_windows.sql").read_text(encoding="utf-8")
NAMESPACE = "{http://www.w3.org/2000/svg}"

boxes = st.recursive(
    st.builds(Box, st.lists(st.sampled_from(["a", "b < 1 & c", "x" * 90]), min_size=1, max_size=3).map(tuple)),
    lambda below: st.builds(
        Box, st.just(("JOIN",)), st.sampled_from(["", "weak", "weakest"]), st.lists(below, max_size=3).map(tuple)
    ),
    max_leaves=8,
)


def elements(drawing: str, tag: str) -> list[dict[str, str]]:
    root = ElementTree.fromstring(drawing)
    return [{**found.attrib, "text": found.text or ""} for found in root.iter(f"{NAMESPACE}{tag}")]


def rectangles(drawing: str) -> list[tuple[float, float, float, float]]:
    found = [r for r in elements(drawing, "rect") if "x" in r]
    return [(*(float(r[name]) for name in ("x", "y", "width", "height")),) for r in found]  # type: ignore[misc]


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.lists(boxes, min_size=1, max_size=3))
def test_boxes_are_apart_and_inside_the_picture(trees: list[Box]) -> None:
    drawing = svg(trees)
    root = ElementTree.fromstring(drawing)
    found = rectangles(drawing)
    for x, y, width, height in found:
        assert x >= 0 and y >= 0
        assert x + width <= float(root.attrib["width"]) and y + height <= float(root.attrib["height"])
    for (x1, y1, w1, h1), (x2, y2, w2, h2) in combinations(found, 2):
        assert x1 + w1 <= x2 or x2 + w2 <= x1 or y1 + h1 <= y2 or y2 + h2 <= y1
    for text in elements(drawing, "text"):
        assert len(text["text"]) <= LONGEST
        assert float(text["x"]) + len(text["text"]) * LETTER <= float(root.attrib["width"])


@pytest.mark.parametrize("plan", [NEGATION_ABOVE, NEGATION_BELOW])
def test_a_relational_plan_has_a_box_for_every_operator_and_a_pattern_on_every_edge(plan: object) -> None:
    drawing = as_written([Relation("q", "", plan)]).to_svg()  # type: ignore[arg-type]
    texts = [text["text"] for text in elements(drawing, "text")]
    assert len(rectangles(drawing)) == 8
    assert sum(text in ("strict", "weak", "weakest") for text in texts) == 7
    assert {"query q", "S1 [RANGE 10 min]", "WHERE b > 10", "JOIN 0.a = 1.a"} <= set(texts)


def test_a_shared_plan_has_a_box_for_every_query() -> None:
    engine = Engine()
    engine.execute(SCRIPT)
    texts = [text["text"] for text in elements(engine.explain().to_svg(), "text")]
    assert {f"query {name}" for name in engine.catalog.queries} <= set(texts)
    only = [text["text"] for text in elements(engine.explain("continuous").to_svg(), "text")]
    assert "query continuous" in only and "query at_tuples" not in only
