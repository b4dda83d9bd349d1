"""The manifest of a checkpoint, and folders that no name clashes with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mullion.errors import CheckpointError
from mullion.storage.manifest import Manifest, journals, stream_folder
from mullion.storage.marks import Mark
from without_spark import local_engine


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert Manifest.read(tmp_path) is None
    manifest = Manifest("abc", {"s": "s (x INT)"}, "/out", {"sharing": "on"})
    manifest.write(tmp_path)
    assert Manifest.read(tmp_path) == manifest


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 2}', b'{"id": "a", "checksum": "00000000"}'])
def test_a_damaged_manifest_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"manifest.json is damaged"):
        Manifest.read(tmp_path)


def test_a_checkpoint_of_before_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"streams": {}, "out": None}))
    with pytest.raises(CheckpointError, match="has format 1") as error:
        Manifest.read(tmp_path)
    assert error.value.hint


NAMES = ("relations", "commits", "streams", "spark", "head-")


def test_no_stream_clashes_with_the_checkpoints_own_folders(tmp_path: Path) -> None:
    """Streams of all kinds of names, in one checkpoint, with relations over two of them."""
    assert len({stream_folder(name) for name in NAMES}) == len(NAMES)
    source = "(ts TIMESTAMP, x INT) USING json OPTIONS (path 'nowhere') TIMESTAMP BY ts"
    streams = "".join(f"CREATE STREAM `{name}` {source};" for name in NAMES)
    counts = "".join(
        f"CREATE QUERY q{i} AS SELECT count(*) AS n FROM `{name}` [RANGE '2 us' SLIDE '2 us'];"
        for i, name in enumerate(NAMES)
    )
    pairs = (
        "CREATE QUERY p AS SELECT r.x AS x FROM relations [RANGE '5 us'] r, commits [RANGE '5 us'] c WHERE r.x = c.x;"
    )
    for number in range(3):
        with local_engine(streams + counts + pairs, checkpoint=tmp_path) as engine:
            for name in NAMES:
                run = engine.runs[name]
                assert run.committed == (Mark(number - 1) if number else None)
                engine.deliver(name, [{"ts": 4 * number + i, "x": i} for i in range(3)], number)
            assert engine.runs["commits"].counts.events == 3 * (number + 1)
    assert len(list(journals(tmp_path))) == len(NAMES) + 1


SCRIPT = """CREATE STREAM s (ts TIMESTAMP, x INT) USING json OPTIONS (path 'nowhere') TIMESTAMP BY ts;
CREATE QUERY n AS SELECT count(*) AS n FROM s [RANGE '2 us' SLIDE '2 us'];
CREATE QUERY d AS SELECT DISTINCT x FROM s [RANGE '5 us'];"""


def _run(number: int, checkpoint: Path, **options: str) -> None:
    with local_engine(SCRIPT, checkpoint=checkpoint, **options) as engine:
        engine.deliver("s", [{"ts": 4 * number + i, "x": i} for i in range(3)], number)


@pytest.mark.parametrize(
    ("option", "then", "now"),
    [("sharing", "off", "auto"), ("sharing", "on", "off"), ("expiry", "upa", "nt"), ("expiry", "scan", "upa")],
)
def test_state_made_with_another_option_is_refused(option: str, then: str, now: str, tmp_path: Path) -> None:
    """Its operators keep other things, or keep them elsewhere: going on would answer wrongly."""
    _run(0, tmp_path, **{option: then})
    with pytest.raises(CheckpointError, match=f"was made with another {option}: {then}") as refused:
        _run(1, tmp_path, **{option: now})
    assert f"--{option} {then} (Engine: {option}='{then}')" in (refused.value.hint or "")
    _run(1, tmp_path, **{option: then})


def test_a_checkpoint_says_direct_of_scans(tmp_path: Path) -> None:
    """That is what they were called: checkpoints of both are gone on from."""
    _run(0, tmp_path, expiry="direct")
    known = Manifest.read(tmp_path)
    assert known is not None and known.options["expiry"] == "direct"
    _run(1, tmp_path, expiry="scan")
    _run(2, tmp_path, expiry="direct")


def test_options_that_state_does_not_depend_on_may_change(tmp_path: Path) -> None:
    _run(0, tmp_path, sharing="auto", slicing="paired", method="rows")
    _run(1, tmp_path, sharing="on", slicing="paned", method="fragments")


@pytest.mark.parametrize(("option", "now"), [("sharing", "off"), ("expiry", "nt"), ("expiry", "scan")])
def test_a_manifest_that_names_no_options_was_made_with_the_defaults(option: str, now: str, tmp_path: Path) -> None:
    _run(0, tmp_path)
    known = Manifest.read(tmp_path)
    assert known is not None and known.options == {"sharing": "on", "expiry": "upa"}
    Manifest(known.id, known.streams, known.out).write(tmp_path)
    with pytest.raises(CheckpointError, match=f"was made with another {option}"):
        _run(1, tmp_path, **{option: now})
    _run(1, tmp_path)
