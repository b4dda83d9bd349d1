"""What may not be dropped, since a query stands on it."""

from __future__ import annotations

from mullion.algebra.nodes.base import nodes
from mullion.algebra.nodes.promising import Promising
from mullion.algebra.relation import Relation
from mullion.binding.relations import bind
from mullion.catalog.catalog import Catalog
from mullion.errors import CheckError, Place
from mullion.language.parse import parse_query


def check_unneeded(name: str, catalog: Catalog, place: Place | None) -> None:
    """Refuse to drop a summary without which a query with a PREFERENCE could not be made, or would be another."""
    left = [summary for summary in catalog.summaries if summary.name.lower() != name.lower()]
    for query in catalog.queries.values():
        promising = _promising(query)
        if not promising:
            continue
        try:
            known = catalog.streams, catalog.tables, catalog.materialized
            is_needed = _promising(bind(parse_query(query.text), *known, left)) != promising
        except CheckError:
            is_needed = True
        if is_needed:
            hint = f"DROP QUERY {query.name} first"
            raise CheckError(f"query '{query.name}' prefers rows by the summary '{name}'", place, hint=hint)


def _promising(query: Relation) -> list[Promising]:
    return [node for node in nodes(query.root) if isinstance(node, Promising)]
