"""Zero silently wrong: whatever is damaged in a checkpoint, a restart answers as if nothing had happened or names it.

MULLION_CAMPAIGN=5000 pytest tests/faults/test_damage.py      many trials, seeds 0 to 4999
python tests/faults/damage.py 1234                            one of them again
"""

from __future__ import annotations

import os

import pytest

from faults.damage import files, made, trial

TRIALS = int(os.environ.get("MULLION_CAMPAIGN") or 50)

KINDS_OF_FILES = {
    ".lock",
    "head",
    "manifest.json",
    "relations/commits",
    "relations/materialized/held",
    "relations/queries",
    "relations/shards",
    "relations/shelf",
    "streams/commits",
    "streams/intake",
    "streams/kept",
    "streams/queries",
    "streams/tables/names",
}


@pytest.mark.slow
def test_damage_is_noticed_or_harmless() -> None:
    kinds = {kind for one in made() for kind in files(one.base / "checkpoint")}
    assert kinds >= KINDS_OF_FILES
    outcomes = {}
    for seed in range(TRIALS):
        try:
            outcomes[seed] = trial(seed)
        except BaseException as problem:
            problem.add_note(f"python tests/faults/damage.py {seed}   replays it")
            raise
    refused = [text for text in outcomes.values() if not text.endswith("harmless")]
    assert len(refused) > TRIALS / 3
