"""The words and symbols of Mullion SQL: tables that parser and renderer share."""

from __future__ import annotations

AGGREGATES = {
    "count": "count",
    "sum": "sum",
    "avg": "avg",
    "mean": "avg",
    "min": "min",
    "max": "max",
    "var_pop": "var_pop",
    "var_samp": "var_samp",
    "variance": "var_samp",
    "stddev_pop": "stddev_pop",
    "stddev_samp": "stddev_samp",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "median": "median",
    "percentile": "percentile",
    "mode": "mode",
    "top_k": "top_k",
    "frequent": "frequent",
    "approx_count_distinct": "approx_count_distinct",
    "approx_percentile": "approx_percentile",
    "approx_frequency": "approx_frequency",
    "percentile_approx": "approx_percentile",
    "first": "first",
    "first_value": "first",
    "last": "last",
    "last_value": "last",
    "decay": "decay",
}
"""Every name an aggregate may be written by, and its canonical one."""

STAR = "(*)"
"""What is added to the name of a function that is called with *. None has such a name: whoever knows the functions says
whether it is unknown, or does not take *."""

OUTPUTS = ("istream", "dstream", "rstream", "wstream")
"""The output streams."""

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

UNITS = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), MICROSECOND),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), MILLISECOND),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), SECOND),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), MINUTE),
    **dict.fromkeys(("h", "hour", "hours"), HOUR),
    **dict.fromkeys(("d", "day", "days"), DAY),
    **dict.fromkeys(("week", "weeks"), 7 * DAY),
}
"""Microseconds of every unit that a duration may be written in."""

MONTH_UNITS = frozenset(("month", "months", "quarter", "quarters", "year", "years"))
"""Units without a fixed length, refused with a reason."""

OR, AND, NOT, PREDICATE, COMPARISON, BIT_OR, BIT_XOR, BIT_AND, SUM, PRODUCT, SIGN, CAST = range(1, 13)
"""How tightly operators bind, as in Spark's grammar: comparisons are one level, and a predicate (IN, LIKE, IS,
BETWEEN) is not an operand of them without parentheses."""

BINARY = {
    "or": ("or", OR),
    "and": ("and", AND),
    "=": ("eq", COMPARISON),
    "==": ("eq", COMPARISON),
    "<>": ("ne", COMPARISON),
    "!=": ("ne", COMPARISON),
    "<": ("lt", COMPARISON),
    "<=": ("le", COMPARISON),
    ">": ("gt", COMPARISON),
    ">=": ("ge", COMPARISON),
    "<=>": ("eq_null_safe", COMPARISON),
    "|": ("bitor", BIT_OR),
    "^": ("bitxor", BIT_XOR),
    "&": ("bitand", BIT_AND),
    "+": ("add", SUM),
    "-": ("subtract", SUM),
    "||": ("concat", SUM),
    "*": ("multiply", PRODUCT),
    "/": ("divide", PRODUCT),
    "%": ("mod", PRODUCT),
    "div": ("div", PRODUCT),
}
"""Left-associative operators as written: the call's name and the level. `render` takes a name's first spelling."""

OPERATOR_ONLY = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq_null_safe": "<=>",
    "is_null": "IS NULL",
    "bitand": "&",
    "bitor": "|",
    "bitxor": "^",
    "bitnot": "~",
}
"""Call names that stand for operators and are no functions: written as a function, they are misspelt."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED = _words(
    """all and as between by case cast cross distinct div else end except exists false fetch filter for from full group
    having ilike in inner intersect is join left like limit natural not null on or order outer over regexp right rlike
    select then true try_cast union using when where with"""
)
"""Words that are no names of columns, tables or aliases unless backquoted."""

FUNCTIONS_NAMED_BY_RESERVED = frozenset(("like", "ilike", "rlike", "left", "right", "div"))
"""Reserved words that Spark also has as functions, known by the parenthesis after them."""

QUOTED_WHEN_RENDERED = RESERVED | _words(
    """ahead approx backfill both current_date current_timestamp curdate date desc asc dstream exists extract hop
    interval internal istream keep lateness leading localtimestamp materialized minus nulls now offset options partition
    position preference range restore rows rstream slide start stop substr substring table timestamp timestamp_ltz
    timestamp_ntz trailing trim tumble tuple tuples unbounded wattr window wstream fade factor semi anti"""
)
"""Words with a meaning somewhere: as names, the renderer backquotes them, so that no context can mistake them."""
