"""Statements carried out against the catalog: a script's all together or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mullion.algebra.nodes.base import Columns
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.binding.mistakes import ScriptMistakes
from mullion.catalog.catalog import Catalog
from mullion.catalog.dropping import check_unneeded
from mullion.catalog.summaries import checked_summary
from mullion.catalog.synopses import checked_synopsis
from mullion.errors import MullionError, Place, refuse
from mullion.language.parse import read_script
from mullion.language.query import Query
from mullion.language.script import (
    Ask,
    CreateQuery,
    CreateStream,
    CreateSummary,
    CreateSynopsis,
    CreateTable,
    Drop,
    Explain,
    Statement,
)
from mullion.planner.explain import Explanation
from mullion.runtime.asking import prepare
from mullion.spark.results import OneAnswer
from mullion.spark.sources import check_format
from mullion.summaries.kinds import DEFAULT, KINDS


class Statements:
    """`add` adds a standing query, `explain` explains one or all, and `answer` answers a question if it `can_answer`.
    Until then questions wait in `questions`."""

    def __init__(
        self,
        catalog: Catalog,
        questions: list[Query],
        *,
        columns_of: Callable[[str, str, Mapping[str, str], Place | None], Columns],
        add: Callable[[Query], Relation],
        explain: Callable[[str | None], Explanation],
        answer: Callable[[Query], OneAnswer],
        can_answer: Callable[[], bool],
    ) -> None:
        self._catalog, self._questions, self._columns_of = catalog, questions, columns_of
        self._add, self._explain, self._answer, self._can_answer = add, explain, answer, can_answer

    def execute(self, script: str) -> tuple[list[Explanation | OneAnswer], list[Relation]]:
        """What the script's EXPLAINs and questions say, and the queries that it added and dropped."""
        parsed = read_script(script)
        mistakes = ScriptMistakes(parsed)
        # One statement is carried out or not, and a copy would take as long as there are queries.
        before = self._catalog.copy() if mistakes.errors or len(parsed.statements) > 1 else self._catalog
        waiting = list(self._questions)
        said, changed = list[Explanation | OneAnswer](), list[Relation]()
        try:
            for statement in parsed.statements:
                try:
                    if mistakes.errors:
                        self._check(statement)
                    elif (answer := self._execute(statement, changed)) is not None:
                        said.append(answer)
                except MullionError as mistake:
                    mistakes.note(statement, mistake)
            refuse(mistakes.errors)
        except BaseException:
            self._catalog.go_back_to(before)
            self._questions[:] = waiting
            raise
        return said, changed

    def _check(self, statement: Statement) -> None:
        """Find what is wrong with a statement that will not be carried out, since others are wrong."""
        if isinstance(statement, Ask):
            prepare(statement.query, self._catalog)
        elif not isinstance(statement, Explain):
            self._execute(statement, [])
        elif statement.name is not None:
            self._catalog.query_named(statement.name, statement.place)

    def _execute(self, statement: Statement, changed: list[Relation]) -> Explanation | OneAnswer | None:
        catalog = self._catalog
        match statement:
            case CreateStream():
                self._create_stream(statement)
            case CreateTable():
                self._create_table(statement)
            case CreateQuery(query=query):
                changed.append(self._add(query))
            case Drop(kind="query", name=name):
                changed.append(catalog.query_named(name, statement.place))
                catalog.drop_query(name, statement.place)
            case CreateSynopsis():
                stream = catalog.stream(statement.stream, statement.stream_place)
                catalog.add_synopsis(checked_synopsis(statement, stream), statement.place)
            case Drop(kind="synopsis", name=name):
                catalog.drop_synopsis(name, statement.place)
            case CreateSummary():
                stream = catalog.stream(statement.stream, statement.stream_place)
                catalog.add_synopsis(checked_summary(statement, stream, KINDS, DEFAULT), statement.place)
            case Drop(kind="summary", name=name):
                check_unneeded(name, catalog, statement.place)
                catalog.drop_summary(name, statement.place)
            case Explain(name=name):
                if name is not None:
                    catalog.query_named(name, statement.place)
                return self._explain(name)
            case Ask(query=query):
                if self._can_answer():
                    return self._answer(query)
                prepare(query, catalog)
                self._questions.append(query)
        return None

    def _create_stream(self, create: CreateStream) -> None:
        written = create.format, create.options, create.format_place, create.option_places
        format_, options = check_format(*written)
        at = _place_of_path(create)
        columns = create.columns or self._columns_of(create.name, format_, dict(options), at)
        limits = create.keep, create.keep_rows, create.ahead, create.time, create.idle, create.shedding
        named = create.name, columns, create.time_column, create.lateness, format_, options
        stream = Stream(*named, *limits, create.punctuation, create.memory)
        self._catalog.add_stream(stream.check(create.place, create.time_place), create.name_place, at)

    def _create_table(self, create: CreateTable) -> None:
        written = create.format, create.options, create.format_place, create.option_places
        format_, options = check_format(*written)
        at = _place_of_path(create)
        columns = create.columns or self._columns_of(create.name, format_, dict(options), at)
        table = Table(create.name, columns, format_, options, create.retroactive)
        self._catalog.add_table(table.check(create.place), create.name_place, at)


def _place_of_path(create: CreateStream | CreateTable) -> Place | None:
    """Where the path stands among the options, if there is one."""
    written = zip(create.options, create.option_places, strict=False)
    return next((place for (name, _), place in written if name.lower() == "path"), None)
