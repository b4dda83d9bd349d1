"""What a checkpoint says of streams and queries, and whether a restart fits it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.binding.entering import Entrance, Standing, entered
from mullion.binding.relations import bind
from mullion.catalog.catalog import Catalog
from mullion.errors import CheckpointError
from mullion.language.parse import parse_query
from mullion.language.render import render, render_punctuation
from mullion.options import DEFAULTS, Expiry
from mullion.storage.manifest import Manifest, queries_noted


def stream_text(stream: Stream) -> str:
    time = "" if stream.time is None else f"{render(stream.time)} AS "
    columns = ", ".join(f"{name} {type_}" for name, type_ in stream.columns)
    read = f"{stream.name} ({columns}) {stream.format} {sorted(stream.options)}"
    over = "" if stream.punctuation is None else f" {render_punctuation(stream.punctuation)}"
    return f"{read} {time}{stream.time_column} {stream.lateness}{over}"


def check_manifest(then: Manifest, now: Manifest, where: Path) -> None:
    """Refuse to go on from a checkpoint with another script, other options or another place for answers."""
    hint = "go back to the script that it was made with, or start with a new checkpoint directory"
    if then.out != now.out:
        raise CheckpointError(f"the checkpoint {where} belongs to answers in {then.out}, not {now.out}", hint=hint)
    for name, choice in {**DEFAULTS.of_state, **then.options}.items():  # one that names none was made with the defaults
        if now.options.get(name) != choice:
            choice = Expiry(choice) if name == "expiry" else choice
            again = (
                f"go on with --{name} {choice} (Engine: {name}='{choice}'), or start with a new checkpoint directory"
            )
            raise CheckpointError(f"the checkpoint {where} was made with another {name}: {choice}", hint=again)
    for name, text in then.streams.items():
        if name not in now.streams:
            raise CheckpointError(f"the checkpoint {where} knows a stream '{name}' that the script lacks", hint=hint)
        if now.streams[name] != text:
            message = f"stream '{name}' is not the one that the checkpoint {where} was made with"
            raise CheckpointError(message, hint=f"{hint}\n  then: {text}\n  now:  {now.streams[name]}")


def check_queries(checkpoint: Path, by_slices: Iterable[Standing], by_operators: Iterable[Standing]) -> None:
    """Refuse queries that have the name of one that the checkpoint knows and say something else, or that can no longer
    be run as they were. A name may stand in two journals, since a run may be killed while another query takes it."""
    noted = {kind: list(queries_noted(checkpoint, kind)) for kind in ("streams", "relations")}
    texts = {kind: {(entry["name"], entry["text"]) for entry in entries} for kind, entries in noted.items()}
    names = {name for of_kind in texts.values() for name, _ in of_kind}
    for queries, own, other in ((by_slices, "streams", "relations"), (by_operators, "relations", "streams")):
        for query in queries:
            if (query.name, query.text) in texts[own]:
                continue
            if (query.name, query.text) in texts[other]:
                raise tables_declared_otherwise(query.name)
            if query.name in names:
                hint = "give the changed query another name, or start with a new checkpoint directory"
                raise CheckpointError(f"query '{query.name}' is not the one that the checkpoint knows", hint=hint)


def tables_declared_otherwise(name: str) -> CheckpointError:
    """The error for a query whose text is as before, but which can no longer be run as before."""
    message = f"query '{name}' is not the one that the checkpoint knows: its tables were declared otherwise"
    hint = "declare them as they were, RETROACTIVE or not, or start with a new checkpoint directory"
    return CheckpointError(message, hint=hint)


def to_journal(query: Standing) -> dict[str, Any]:
    entry = {"name": query.name, "text": query.text}
    return entry | {key: value for key, name in _ENTERED.items() if (value := getattr(query, name)) is not None}


def from_journal(entry: Mapping[str, Any], catalog: Catalog) -> Relation:
    relation = bind(parse_query(entry["text"]), catalog.streams, catalog.tables, summaries=catalog.summaries)
    return as_journaled(replace(relation, name=entry["name"]), entry)


def as_journaled(relation: Relation, entry: Mapping[str, Any]) -> Relation:
    """The relation as it entered the stream."""
    return entered(relation, Entrance(**{name: entry[key] for key, name in _ENTERED.items() if key in entry}))


_ENTERED = {"start": "start", "after": "after", "tag": "tag", "joined": "entered_after"}
"""What entering decides of a query: the journal's word for it, and the query's."""
