"""Times in formats of a user's own, read as Spark reads them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mullion.errors import CheckError
from mullion.expressions.evaluate import count_bad, evaluate
from mullion.expressions.typing import resolve
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_query
from mullion.language.query import Call, Cast, Column, Literal
from mullion.language.types import BINARY, STRING, TIMESTAMP
from mullion.spark.expressions import bad_text, spark_text
from spark.compared import selected

ZONES = {
    1: ["+01", "-0130", "+0000", "Z", "z", "+00", "+00:00", "+1960", "-00", "+2", "+01:30"],
    2: ["+0100", "-0130", "+0000", "Z", "+00:00", "+01", "-1801", "+1960", "-0000"],
    3: ["+05:30", "-01:00", "+00:00", "Z", "z", "+18:00", "-18:01", "+0100", "-00:00"],
}
LETTERS: dict[str, list[Any]] = {
    "y": ["2024", "0001", "9999", "1", "12345", "-5", "0"], "yy": ["00", "24", "70", "99"],
    "yyyy": ["2024", "1900", "0001", "0000", "12024", "+12024", "-0044", "+294247", "+294248", "+999999999", "224"],
    "M": ["1", "02", "12", "13", "-1"], "MM": ["01", "02", "12", "13", "00"], "d": ["1", "29", "30", "31", "007"],
    "dd": ["01", "28", "29", "30", "31", "32"], "H": ["0", "9", "23", "24"], "HH": ["00", "12", "23", "24"],
    "h": ["1", "12", "0", "13"], "hh": ["01", "12", "00", "13"], "a": ["AM", "pm", "Pm", "A"],
    "m": ["0", "59", "60"], "mm": ["00", "59", "60"], "s": ["0", "59", "60"], "ss": ["00", "59", "60"],
    **{"S" * n: ["1", "12", "123456", "123456789", "1" * n] for n in range(1, 10)},
    **{letter * n: ZONES[2 if letter == "Z" else n] for letter in "XxZ" for n in (1, 2, 3)},
}  # fmt: skip
BETWEEN = ["-", "/", " ", ":", ".", ", ", "'T'", "'o''clock'", "''", "'Sik'", "年", "", ""]


def random_format(chance: random.Random) -> list[str]:
    """Parts of a format: letters, and what stands between them."""
    if chance.random() < 0.3:
        plain = [["yyyy", "MM", "dd", "HH", "mm", "ss"], ["yy", "M", "d"], ["d", "MM", "yyyy", "", "hh", "mm", "a"]]
        kinds = chance.choice(plain)
    else:
        hour = chance.choice([["H"], ["HH"], ["h", "a"], ["hh", "a"], []])
        fields = [["y", "yy", "yyyy", "yyyy"], ["M", "MM"], ["d", "dd"], ["m", "mm"], ["s", "ss"]]
        kinds = [*(chance.choice(letters) for letters in fields if chance.random() < 0.8), *hour]
        if chance.random() < 0.2:
            chance.shuffle(kinds)
    if chance.random() < 0.4:
        kinds = [*kinds, "S" * chance.randint(1, 9)]
    if chance.random() < 0.4:
        kinds = [*kinds, chance.choice("XxZ") * chance.randint(1, 3)]
    together = chance.random() < 0.3
    parts = [p for kind in kinds for p in (kind, "" if together else chance.choice(BETWEEN))]
    return parts[:-1] if any(kinds) else ["yyyy"]


def random_text(chance: random.Random, parts: Sequence[str]) -> str:
    """A text in the format, or nearly so."""
    quoted = {"'T'": "Tt", "'o''clock'": ["o'clock", "O'CLOCK"], "''": "'", "'Sik'": ["Sik", "ſİK", "sık"]}
    rare = 0.05
    made = ""
    for part in parts:
        values = LETTERS.get(part)
        if values is None:
            made += chance.choice(quoted.get(part, [part]))
        else:
            good = [v for v in values if v.isdecimal() and v not in ("13", "24", "32", "60", "00", "0")] or values
            made += chance.choice(values if chance.random() < 3 * rare else good[:3])
    while made and chance.random() < 3 * rare:
        at = chance.randrange(len(made))
        made = made[:at] + chance.choice(["", " ", "0", "7", "x", "-", made[at] * 2]) + made[at + 1 :]
    return made


def test_times_in_formats_of_ones_own(spark: Any) -> None:
    chance = random.Random(11)
    made = [random_format(chance) for _ in range(80)]
    formats, texts = list(dict.fromkeys("".join(parts) for parts in made)), list[str]()
    exprs = []
    for format_ in formats:
        try:
            exprs.append(resolve(Call("to_timestamp", (Column("t"), Literal(format_, STRING))), {"t": STRING})[0])
        except CheckError as error:
            assert re.search("with S cannot end with a quote|zone|no end of their own", str(error))
    for parts in made:
        texts += [random_text(chance, parts) for _ in range(9)]
    vector = Vector.of(STRING, texts)
    frame = spark.createDataFrame(pa.table({"t": vector.to_arrow()})).coalesce(1)
    wrong, read = [], 0
    for expr, values in zip(exprs, selected(frame, [spark_text(e) for e in exprs]), strict=True):
        assert not isinstance(values, str), (expr, values)
        theirs = Vector.from_arrow(values, TIMESTAMP).to_list()
        mine = evaluate(expr, {"t": vector}, len(texts)).to_list()
        read += sum(value is not None for value in mine)
        wrong += [
            f"{spark_text(expr)} on {text!r}: {a}, Spark {b}"
            for text, a, b in zip(texts, mine, theirs, strict=True)
            if a != b
        ]
    for expr, values in zip(exprs, selected(frame, [bad_text(e) or "" for e in exprs[:9]]), strict=False):
        assert count_bad(expr, {"t": vector}, len(texts)).tolist() == values.to_pylist(), spark_text(expr)
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:40])
    assert len(exprs) > 50 and read > 200


def test_what_is_read_by_a_format_as_written(spark: Any) -> None:
    """Dates and seconds of texts, and the fraction of seconds, as plain Spark gives them of the same text."""
    texts = ["2024-02-28", "2024-02-28 10:20:30", "20240228", "2024-02-30", "x", None, "1969-12-31 23:59:59"]
    written = [
        "unix_timestamp(t)", "unix_timestamp(t, 'yyyy-MM-dd')", "to_date(t, 'yyyyMMdd')", "to_date(t, 'yyyy-MM-dd')",
        "extract(SECOND FROM at)", "extract(YEAROFWEEK FROM at)", "extract(DOW_ISO FROM at)",
        "unix_timestamp(at, 'yyyy')", "to_date(at, 'yyyy')",
    ]  # fmt: skip
    times = [-1, 0, 1_709_115_630_250_000, None, 59_999_999, -62_135_596_800_000_000, 1_704_067_199_999_999]
    columns = {"t": Vector.of(STRING, texts), "at": Vector.of(TIMESTAMP, times)}
    types = {name: vector.type for name, vector in columns.items()}
    frame = spark.createDataFrame(pa.table({name: v.to_arrow() for name, v in columns.items()})).coalesce(1)
    exprs = [resolve(parse_query(f"SELECT {text} AS x FROM s").items[0].expr, types) for text in written]
    for texts_of in (written, [spark_text(expr) for expr, _ in exprs]):
        for text, (expr, type_), values in zip(written, exprs, selected(frame, texts_of), strict=True):
            mine = evaluate(expr, columns, len(texts)).to_list()
            assert mine == Vector.from_arrow(values, type_).to_list(), text


def test_bytes_that_are_no_text(spark: Any) -> None:
    """As text, Spark's rows and the kernel's have the same character for what cannot be read, and no batch fails."""
    chance = random.Random(3)
    made = [
        bytes(chance.choice([0x41, 0x80, 0xC3, 0xA4, 0xE2, 0x82, 0xF0, 0x9F, 0xFF]) for _ in range(6))
        for _ in range(200)
    ]
    vector = Vector.of(BINARY, [*made, b"", None, "ä€😀".encode()])
    expr, _ = resolve(Cast(Column("b"), STRING), {"b": BINARY})
    frame = spark.createDataFrame(pa.table({"b": vector.to_arrow()})).coalesce(1)
    (theirs,) = selected(frame, [spark_text(expr)])
    assert evaluate(expr, {"b": vector}, len(made) + 3).to_list() == theirs.to_pylist()
