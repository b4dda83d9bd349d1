"""Properties that are computed at their first use.

`functools.cached_property` of Python 3.11 holds one lock for all instances of a class while it finds a value: threads
that each answer a sharing set of their own would wait for one another. Here there is none. Two threads that ask the
same instance at once both find the value, and one of them is kept: it must follow from the instance alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:
        """
        >>> class Half:
        ...     whole = 6
        ...
        ...     @cached_property
        ...     def part(self):
        ...         return self.whole / 2
        >>> half = Half()
        >>> half.part, half.__dict__
        (3.0, {'part': 3.0})
        """

        def __init__(self, find: Callable[[Any], Any]) -> None:
            self.func, self.__doc__ = find, find.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.attrname = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
