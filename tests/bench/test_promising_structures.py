"""The benchmark of structures that lead to partners: each finds all of them, and a quick run tells all."""

from __future__ import annotations

import io
import json
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import promising_structures
from benchmarks.promising_structures import QUICK, STRUCTURES, Costs, Structure, tuples


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_partner_is_found(name: str) -> None:
    times, keys, probes = tuples(QUICK, QUICK.window)
    structure = Structure(name, QUICK)
    structure.insert(times, keys)
    partners = Counter(keys.tolist())
    assert structure.probe(probes).tolist() == [partners[key] for key in probes.tolist()]
    assert (structure.zones == 1) == (name == "T1")


def test_results_that_there_is_time_for() -> None:
    assert Costs(0.5, 0.1, 1).results(2.5) == pytest.approx(20) and Costs(0.5, 0.1, 1).results(0.4) == 0


@pytest.mark.slow
def test_a_quick_run_tells_all(tmp_path: Path) -> None:
    out = io.StringIO()
    console = Console(file=out, width=200)
    made = promising_structures.run(console, json=tmp_path / "f.json", plot=tmp_path / "f.png", quick=True)
    found = json.loads((tmp_path / "f.json").read_text())
    assert set(found["costs"]) == set(STRUCTURES) and not found["judged"] and made.passed
    assert "t_ins" in out.getvalue()
    assert (tmp_path / "f.png").exists() == (find_spec("matplotlib") is not None)
