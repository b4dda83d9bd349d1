"""Columns of codes that Parquet writes as they are: the dictionary as its first page, and the codes behind it.

Parquet keeps texts as codes into a dictionary too. Where answers come as codes, texts need not be made of these, only
to be looked up one by one for the dictionary of the file. Readers see no difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from mullion.expressions.coding.dictionary import decoded_schema

CODES_A_VALUE = 8
"""Rows for each value of a file's dictionary, from which on codes are kept: it holds values that no row has, too."""
MOST_BYTES = 1 << 20
"""Bytes of a dictionary, from which on Parquet by itself writes no codes."""


def in_one(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables, with codes where Parquet can write them."""
    schema = decoded_schema(tables[0].schema)
    columns = []
    for i, field in enumerate(schema):
        chunks = [chunk for table in tables for chunk in table.column(i).chunks]
        coded = _in_one_dictionary(chunks, field.type)
        columns.append(pa.chunked_array([_decoded(chunk) for chunk in chunks] if coded is None else coded))
    return pa.table(columns, names=schema.names)


def _in_one_dictionary(chunks: Sequence[pa.Array], values: pa.DataType) -> list[pa.Array] | None:
    """The same with codes into one dictionary of different values, which is all that Parquet takes; None where that
    does not pay. Answers have a value for each group, and groups with several keys have values in common."""
    is_text = pa.types.is_string(values) or pa.types.is_binary(values)
    if not is_text or not all(pa.types.is_dictionary(chunk.type) for chunk in chunks):
        return None
    rows = sum(map(len, chunks))
    if 2 * sum(len(chunk.dictionary) for chunk in chunks) > rows:
        return None
    encoded = pa.concat_arrays([chunk.dictionary for chunk in chunks]).dictionary_encode()
    if CODES_A_VALUE * len(encoded.dictionary) > rows or encoded.dictionary.nbytes > MOST_BYTES:
        return None
    coded, first = [], 0
    for chunk in chunks:
        codes = encoded.indices.slice(first, len(chunk.dictionary)).take(chunk.indices)
        coded.append(pa.DictionaryArray.from_arrays(codes, encoded.dictionary, safe=False))
        first += len(chunk.dictionary)
    # With NULLs Arrow may note a smallest or largest value that no row has.
    return None if any(chunk.indices.null_count for chunk in coded) else coded


def _decoded(chunk: pa.Array) -> pa.Array:
    return chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk
