"""The functions that Spark has and Mullion may lack, so that a user hears which of the two is the case."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files

from mullion.errors import CheckError, NotSupported, Place, TextError, closest
from mullion.language.dialect import STAR

BEYOND_ITS_ARGUMENTS = frozenset(
    (
        *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "version", "assert_true", "raise_error"),
        *("now", "curdate", "current_date", "current_time", "current_timestamp", "current_timezone", "localtimestamp"),
        *("user", "current_user", "session_user", "current_catalog", "current_database", "current_schema"),
        *("reflect", "try_reflect", "java_method", "input_file_name", "input_file_block_start"),
        *("input_file_block_length", "monotonically_increasing_id", "spark_partition_id"),
    )
)
"""Functions of Spark whose value depends on more than their arguments, or that do more than give one."""


@lru_cache(maxsize=1)
def sparks_names() -> frozenset[str]:
    """What `SHOW FUNCTIONS` of Spark 4.3 lists, operators left out."""
    listed = files("mullion.expressions.functions").joinpath("sparks.txt")
    return frozenset(listed.read_text(encoding="utf-8").split())


def unknown_function(name: str, place: Place | None, known: Iterable[str]) -> TextError:
    """The error for a function that is not among those known.

    >>> unknown_function("corr", None, ["or", "count"]).message
    'the function corr is not supported yet'
    >>> unknown_function("percentile_approx", None, ["percentile", "approx_percentile"]).hint
    'approx_percentile is'
    >>> unknown_function("cuont", None, ["or", "count"]).hint
    "did you mean 'count'?"
    >>> unknown_function("upper(*)", None, ["upper"]).message
    'upper does not take *'
    """
    known = list(known)
    name, has_star = name.removesuffix(STAR), name.endswith(STAR)
    if has_star and name.lower() in known:
        return CheckError(f"{name} does not take *", place, hint="only count does")
    if name.lower() in BEYOND_ITS_ARGUMENTS:
        hint = "the result for an event must depend on the event alone, so that a restart gives the same"
        return CheckError(f"the function {name} is not allowed", place, hint=hint)
    if name.lower() in sparks_names():
        near = _of_the_same_words(name.lower(), known)
        hint = f"{near} is" if near else "docs/functions.md and docs/language.md list those that are"
        return NotSupported(f"the function {name}", place, hint=hint)
    return CheckError(f"unknown function '{name}'", place, hint=closest(name, known))


def _of_the_same_words(name: str, known: Iterable[str]) -> str | None:
    words = set(name.split("_"))

    def likeness(other: str) -> float:
        theirs = set(other.lower().split("_"))
        return len(words & theirs) / len(words | theirs)

    nearest = max(known, key=likeness, default="")
    return nearest if nearest and likeness(nearest) > 0.5 else None
