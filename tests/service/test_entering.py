"""Which queries a batch sees when it is played again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mullion.algebra.streams import Stream, Table
from mullion.binding.relations import bind
from mullion.catalog.catalog import Catalog
from mullion.catalog.restart import to_journal
from mullion.errors import CheckpointError
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.service.entering import Entering
from mullion.storage.journal import Journal

TEXT = "SELECT max(level) AS m FROM s [RANGE 10 s SLIDE 5 s] JOIN t ON s.k = t.k"


def catalog(*, retroactive: bool) -> Catalog:
    declared = Catalog()
    declared.add_stream(Stream("s", (("ts", TIMESTAMP), ("k", STRING)), "ts"))
    declared.add_table(Table("t", (("k", STRING), ("level", INT)), "csv", retroactive=retroactive))
    return declared


def queries_of_batch(now: Catalog, checkpoint: Path) -> list[str]:
    run: Any = SimpleNamespace(journal=Journal(checkpoint), stream=now.streams["s"], begun=False)
    unused: Any = None
    return [plan.name for plan in Entering(now, unused, unused).queries_of_batch(run, 0)]


def test_a_batch_played_again_sees_its_queries_or_is_refused(tmp_path: Path) -> None:
    """Also those that the script no longer has."""
    then = catalog(retroactive=False)
    relation = bind(parse_query(TEXT, name="q"), then.streams, then.tables)
    Journal(tmp_path).begin(0, [to_journal(relation)])
    assert queries_of_batch(then, tmp_path) == ["q"]
    with pytest.raises(CheckpointError, match=r"query 'q' .* its tables were declared otherwise"):
        queries_of_batch(catalog(retroactive=True), tmp_path)
