"""CSV files with a header: the names in it decide which column is which, file by file.

Spark reads CSV by position: with a header in another order than the schema it swaps columns, or with
`enforceSchema 'false'` refuses the file. Here the headers of a batch's files are read first, by the parser that Spark
reads them with, so that every option (sep, quote, escape, comment, encoding, multiLine, compression) means the same.
Files of the schema's order are read as they are; the others with the schema in their order, and then put together by
name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mullion.algebra.nodes.base import Columns
from mullion.errors import SourceError, closest
from mullion.spark.hadoop import opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def has_header(format_: str, options: Mapping[str, str]) -> bool:
    """`options` have their names in lower case."""
    return format_ == "csv" and options.get("header", "false").strip().lower() == "true"


def orders(
    session: SparkSession,
    name: str,
    uris: Iterable[str],
    options: Mapping[str, str],
    columns: Columns,
    folders: Callable[[str], frozenset[str]],
) -> list[tuple[Columns, list[str]]]:
    """The columns in the order of the files' headers, with the files of each run of neighbours that agree on it.
    `folders` gives the columns, in lower case, that the folders of a file name instead of its header."""
    reader = _HeaderReader(session, options)
    known: dict[tuple[tuple[str, ...], frozenset[str]], Columns] = {}
    runs: list[tuple[Columns, list[str]]] = []
    for uri in uris:
        header = reader.header(uri)
        if header is None:
            continue
        key = header, folders(uri)
        if key not in known:
            known[key] = in_order_of_header(name, uri, header, columns, key[1])
        if runs and runs[-1][0] == known[key]:
            runs[-1][1].append(uri)
        else:
            runs.append((known[key], [uri]))
    return runs


def in_order_of_header(
    name: str, file: str, header: Sequence[str], columns: Columns, folders: frozenset[str] = frozenset()
) -> Columns:
    """The columns in the order of a header, those of folders in their places; a SourceError where header and folders
    do not name the declared columns."""
    by_lower = {column.lower(): (column, type_) for column, type_ in columns if column.lower() not in folders}
    lower = [each.lower() for each in header]
    if sorted(lower) == sorted(by_lower):
        found = iter(lower)
        return tuple(each if each[0].lower() in folders else by_lower[next(found)] for each in columns)
    missing = [column for column, _ in columns if column.lower() not in (*lower, *folders)]
    unknown = [each for each in header if each.lower() not in by_lower]
    twice = sorted({each for each in header if lower.count(each.lower()) > 1})
    wrong = [
        *([f"not in the header: {', '.join(missing)}"] if missing else []),
        *([f"not declared: {', '.join(unknown)}"] if unknown else []),
        *([f"twice in the header: {', '.join(twice)}"] if twice else []),
    ]
    near = [closest(each, missing) for each in unknown]
    guess = next((hint for hint in near if hint is not None), None)
    advice = guess or f"declare exactly the columns of the header for {name}, in any order"
    lines = [
        f"header:   {', '.join(header)}",
        f"declared: {', '.join(column for column, _ in columns)}",
        *wrong,
        advice,
    ]
    raise SourceError(f"{name}: the header of {file} does not name the declared columns", hint="\n  ".join(lines))


class _HeaderReader:
    """Reads the first record of files with Spark's own CSV parser."""

    def __init__(self, session: SparkSession, options: Mapping[str, str]) -> None:
        jvm: Any = session._jvm
        self._jvm = jvm
        self._session = session
        given = jvm.PythonUtils.toScalaMap(dict(options))
        chosen = jvm.org.apache.spark.sql.catalyst.csv.CSVOptions(given, False, "UTC")
        settings = chosen.asParserSettings()
        if "linesep" not in options:
            settings.setLineSeparatorDetectionEnabled(True)  # Spark cuts lines itself, at any of \n, \r\n and \r
        settings.setNullValue("")
        settings.setEmptyValue("")
        self._charset = chosen.charset()
        self._parser = jvm.com.univocity.parsers.csv.CsvParser(settings)

    def header(self, uri: str) -> tuple[str, ...] | None:
        """The names in a file's header, or None for a file without any record. As Spark has it, a column without a
        name is called by its place: _c0, _c1."""
        stream = opened(self._session, uri)
        try:
            self._parser.beginParsing(stream, self._charset)
            while (row := self._parser.parseNext()) is not None:
                names = self._jvm.org.apache.hadoop.util.StringUtils.join("\0", row).split("\0")
                if any(name.strip() for name in names):
                    return tuple(name or f"_c{i}" for i, name in enumerate(names))
            return None
        finally:
            self._parser.stopParsing()
            stream.close()
