"""What a user may choose: one frozen record that the engine, the planner and the runs read.

Each field is an argument of `Engine`, described in docs/python.md. All but `keep_answers` are options of `mullion run`,
which always writes answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from mullion.arguments import require
from mullion.errors import MullionError
from mullion.memory import LEAST, default_limit, parse_size, size_text

EnumChoice = TypeVar("EnumChoice", bound=StrEnum)


class Sharing(StrEnum):
    """Whether the queries of a stream share their work."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class Slicing(StrEnum):
    """How windows are cut into slices: where they start and end, or into equal panes."""

    PAIRED = "paired"
    PANED = "paned"


class Way(StrEnum):
    """Who makes partials: Spark natively, the kernel over rows from Spark, or the kernel that reads files directly."""

    AUTO = "auto"
    NATIVE = "native"
    KERNEL = "kernel"
    DIRECT = "direct"


class Method(StrEnum):
    """How the kernel goes on from the predicates that an event satisfies: fragments by hash, or dense rows."""

    AUTO = "auto"
    FRAGMENTS = "fragments"
    ROWS = "rows"


class Expiry(StrEnum):
    """How rows leave the state of joins and the like: as their update pattern allows, by negative tuples, or found by a
    scan of one list (golab 3.2)."""

    PATTERN_AWARE = "upa"
    NEGATIVE_TUPLES = "nt"
    SCAN = "scan"

    @classmethod
    def _missing_(cls, value: object) -> Expiry | None:
        """Scans were called `direct`, and still are in checkpoints."""
        return cls.SCAN if value == _SCAN_IN_CHECKPOINTS else None

    @property
    def in_checkpoints(self) -> str:
        return _SCAN_IN_CHECKPOINTS if self is Expiry.SCAN else self.value


_SCAN_IN_CHECKPOINTS = "direct"


class Isolation(StrEnum):
    """What a question sees of windows that slide while it reads them (golab 7)."""

    SNAPSHOT = "snapshot"
    LATEST = "latest"
    RESTARTING = "restarting"
    SERIAL = "serial"


class Relief(StrEnum):
    """What a run may do when it is behind: stretch the periods of SLIDE AT MOST, enlarge batches, and shed events of
    streams that allow it."""

    STRETCH = "stretch"
    ENLARGE = "enlarge"
    SHED = "shed"


class Schedule(StrEnum):
    """When queries with SLIDE AT MOST are run, and which together (golab 8.4). Auto: as hybrid, while late as
    late-pending."""

    AUTO = "auto"
    EDF = "edf"
    AGGRESSIVE = "aggressive"
    CONSERVATIVE = "conservative"
    HYBRID = "hybrid"
    LATE_SHARING = "late-sharing"
    LATE_PENDING = "late-pending"


@dataclass(frozen=True)
class Options:
    """All choices, with their defaults. A string that names a choice becomes the choice."""

    sharing: Sharing = Sharing.AUTO
    slicing: Slicing = Slicing.PAIRED
    way: Way = Way.AUTO
    method: Method = Method.AUTO
    expiry: Expiry = Expiry.PATTERN_AWARE
    schedule: Schedule = Schedule.AUTO
    shard_above: int = 200_000
    """Groups of a stream, or events of a first step of relations, above which state stays on executors."""
    keep_answers: int | None = 10_000_000
    """Rows of answers that stay in memory without a directory for them; None for all."""
    most_answers: int = 10_000_000
    """Rows that one batch may answer for one query before it is stopped."""
    most_held: int = 50_000_000
    """Rows that one query over relations may hold, or a join of it give in one step, before it is stopped."""
    memory: int | str | None = None
    """What all processes of a run may take together, in bytes or as text such as '4GB'; None for half of the machine or
    of its container. It becomes a number of bytes."""
    behind_after: float = 10.0
    """Seconds that work must have waited, and still has to wait, before a run that follows its sources is behind."""
    relief: tuple[Relief, ...] = tuple(Relief)
    """What a run does when it is behind, in this order; what is left out is not done. Text such as 'stretch, shed'
    becomes the kinds that it names."""
    isolation: Isolation = Isolation.SNAPSHOT
    """What questions see that do not say it themselves."""
    strict: bool = False
    """Refuse declared columns that no file has, instead of a warning."""
    compact: bool = True
    """Merge the files of a query's answers when they become many."""
    overwrite: bool = False
    """Answers of another run or checkpoint may be removed."""

    def __post_init__(self) -> None:
        for name in ("strict", "compact", "overwrite"):
            require(name, getattr(self, name), bool, "True or False")
        require("behind_after", self.behind_after, (int, float), "a number of seconds above zero")
        if not self.behind_after > 0:
            raise MullionError(f"behind_after is a number of seconds above zero, not {self.behind_after}")
        object.__setattr__(self, "relief", _checked_relief(self.relief))
        require("shard_above", self.shard_above, int, "a number of groups")
        require("keep_answers", self.keep_answers, int, "a number of rows", none=True)
        for name in ("most_answers", "most_held"):
            rows = getattr(self, name)
            require(name, rows, int, "a number of rows, at least 1")
            if rows < 1:
                raise MullionError(f"{name} is a number of rows, at least 1, not {rows}")
        object.__setattr__(self, "memory", _checked_memory(self.memory))
        for name, choices in _CHOICES.items():
            object.__setattr__(self, name, chosen(name, choices, getattr(self, name)))

    @staticmethod
    def of(**given: Any) -> Options:
        """Options as users give them: strings, or the choices themselves.

        >>> Options.of(sharing="off").is_shared
        False
        """
        return Options(**given)

    @property
    def memory_limit(self) -> int:
        """Bytes that all processes of a run may take together."""
        return self.memory if isinstance(self.memory, int) else default_limit()

    @property
    def is_shared(self) -> bool:
        return self.sharing is not Sharing.OFF

    @property
    def of_state(self) -> dict[str, str]:
        """What the state in a checkpoint depends on: a run that goes on from it must have chosen the same."""
        return {"sharing": "on" if self.is_shared else "off", "expiry": self.expiry.in_checkpoints}


_CHOICES: dict[str, type[StrEnum]] = {
    "sharing": Sharing,
    "slicing": Slicing,
    "way": Way,
    "method": Method,
    "expiry": Expiry,
    "isolation": Isolation,
    "schedule": Schedule,
}


def _checked_relief(given: Any) -> tuple[Relief, ...]:
    require("relief", given, (str, tuple, list), f"text: some of {', '.join(Relief)}")
    kinds = [kind for part in given.split(",") if (kind := part.strip().lower())] if isinstance(given, str) else given
    if set(kinds) - set(Relief) or len(set(kinds)) < len(kinds):
        written = given if isinstance(given, str) else ", ".join(map(str, given))
        raise MullionError(f"relief is some of {', '.join(Relief)}, each once, not '{written}'")
    return tuple(map(Relief, kinds))


def _checked_memory(given: Any) -> int | None:
    require("memory", given, (int, str), "a size such as '4GB'", none=True)
    size = parse_size(given) if isinstance(given, str) else given
    if size is not None and size < LEAST:
        raise MullionError(
            f"memory is {size_text(size)}, and at least {size_text(LEAST)} are needed",
            hint="Java and Python take about 1 GB before they have read anything",
        )
    return size


def chosen(name: str, choices: type[EnumChoice], value: Any) -> EnumChoice:
    """The choice that a user names."""
    try:
        return choices(value)
    except ValueError:
        raise MullionError(f"{name} is one of {', '.join(choices)}, not '{value}'") from None


DEFAULTS = Options()
