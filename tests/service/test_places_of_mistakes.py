"""Mistakes in CREATE STREAM and CREATE TABLE are shown where they stand, between « and ». Without a JVM."""

from __future__ import annotations

import pytest

from mullion.errors import TextError
from without_spark import EngineWithoutSpark

STREAM = "CREATE STREAM s (ts TIMESTAMP, at STRING)\nUSING parquet OPTIONS (path 'x')\nTIMESTAMP BY ts"
MISTAKES = {
    STREAM.replace("parquet", "«parkuet»"): "did you mean 'parquet'",
    STREAM.replace("path 'x'", "path 'x', «maxFilePerTrigger 5»"): "did you mean 'maxfilespertrigger'",
    STREAM.replace("path 'x'", "path 'x', «ignoreCorruptFiles 'true'»"): "is not allowed",
    STREAM.replace("BY ts", "BY «tss» LATENESS '5 s'"): "did you mean 'ts'",
    STREAM.replace("BY ts", "BY «at»"): "to_timestamp",
    STREAM.replace("BY ts", "BY «ts + 1»"): "TIMESTAMP",
    "CREATE TABLE t (a INT) USING csv OPTIONS (path 'x', «headr 'true'»)": "did you mean 'header'",
    f"{STREAM};\n{STREAM.replace('STREAM s', 'STREAM «s»')}": "choose another name",
    f"{STREAM};\nCREATE TABLE t (k STRING) USING csv OPTIONS (path 'x');\nCREATE QUERY q AS SELECT at FROM s [NOW] "
    "WHERE NOT EXISTS (SELECT 1 FROM «t» WHERE t.k = s.at)": "LEFT JOIN",
}


@pytest.mark.parametrize("marked", MISTAKES)
def test_a_mistake_is_shown_where_it_stands(marked: str) -> None:
    text = marked.replace("«", "").replace("»", "")
    with EngineWithoutSpark() as engine, pytest.raises(TextError, match=MISTAKES[marked]) as told:
        engine.execute(text)
    place = told.value.place
    assert place is not None
    assert (place.start, text[place.start : place.end]) == (marked.index("«"), marked.split("«")[1].split("»")[0])
