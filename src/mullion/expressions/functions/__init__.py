"""The scalar functions of Mullion SQL. Importing the package fills the registry."""

from mullion.expressions.functions import (  # noqa: F401
    arithmetic,
    bits,
    comparison,
    conditional,
    dates,
    division,
    mathematics,
    patterns,
    readers,
    rounding,
    text,
    time_formats,
)
from mullion.expressions.functions.base import FUNCTIONS, NAMES, Function, Signature

__all__ = ["FUNCTIONS", "NAMES", "Function", "Signature"]
