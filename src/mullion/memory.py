"""How much memory a run may take, and how it is divided.

    limit |== Java: heap ==|= overhead =|================== Python: driver and workers ==================|
                                        |= sub-windows: a half =|= portions: a quarter =|= summaries =|= kept windows =|

Nothing here depends on how large the input is. A batch and a portion of it are cut so that they fit, sub-windows beyond
their part go to disk, and a run that needs more than there is says which query needs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mullion.errors import MullionError

MB, GB = 1 << 20, 1 << 30
_UNITS = {unit: 1 << (10 * power) for power, unit in enumerate("BKMGT")}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(?:i?B)?|B)", re.IGNORECASE)

LEAST = 1536 * MB
"""Java and Python take about 1 GB before there is any event."""
LEAST_HEAP, MOST_HEAP = 512 * MB, 4 * GB
OVERHEAD = 384 * MB
"""What a JVM takes besides its heap, as Spark itself reckons (spark.driver.memoryOverhead)."""
BATCHES = 64
"""A batch's events are such a part of the limit: they become partials of many queries, rows of relations, answers."""
WORKING = 8
"""The kernel takes about so many times the bytes of its events: columns, codes, orders, partials."""
LEAST_AT_ONCE, AT_ONCE = 20_000, 1_500_000
"""Rows that the kernel takes at once. Fewer cost more in calls than they save: with a million, 96 varied queries over
three million events took 10 % longer. More are no faster, since nothing can be done before they are read."""
PARTIAL, COLLECTED = 48, 4
"""Bytes that are reckoned for a partial, and the part of Python's share that those of one batch may take. With a tenth,
256 varied queries took three batches and not one, 0.8 GB less, and 28 % more processor time: each batch costs much."""
SUMMARIES = 8
"""All summaries without MEMORY of their own may take such a part of Python's share together."""
KEPT = 16
"""Windows that are kept from batch to batch may take such a part of Python's share together."""
ANSWERING = 3
"""To answer windows, about so many times the bytes of a grouping's sub-windows are at work."""
HANDED = 32
"""Of its heap the JVM may be handed such a part at once: with 46 of 512 MB it ran out of memory."""
PROCESS = 192 * MB
"""What a process of Python takes before there is any event."""


def parse_size(text: str) -> int:
    """Bytes from text, also as Spark and Kubernetes write it; a KB has 1024.

    >>> parse_size("4GB"), parse_size("1.5 gb"), parse_size("512m") == parse_size("512 MiB") == 512 * MB
    (4294967296, 1610612736, True)
    >>> parse_size("4")
    Traceback (most recent call last):
        ...
    mullion.errors.MullionError: memory is a size such as '4GB', not '4'
      write a number and KB, MB, GB or TB, such as '512MB'
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise MullionError(
            f"memory is a size such as '4GB', not '{text}'", hint="write a number and KB, MB, GB or TB, such as '512MB'"
        )
    return int(float(match[1]) * _UNITS[(match[2] or "B").upper()])


def size_text(size: int) -> str:
    """
    >>> size_text(1536 * MB), size_text(300 * MB), size_text(10)
    ('1.5 GB', '300 MB', '10 bytes')
    """
    if size >= GB:
        return f"{size / GB:.1f} GB"
    return f"{size / MB:.0f} MB" if size >= MB else f"{size} bytes"


def default_limit() -> int:
    """Half of the machine, or of its container; what is needed at the least where that is more."""
    machine = machine_bytes()
    return max(machine // 2, min(machine, LEAST))


def machine_bytes() -> int:
    """The memory that this process may use: the machine's, or its container's where that is less."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in _cgroup_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")):
        try:
            sizes.append(int(limit.read_text()))
        except (OSError, ValueError):  # "max" is no limit
            continue
    return min(size for size in sizes if size > 0)


def _cgroup_limits(own: Path, mounted: Path) -> Iterator[Path]:
    """The files that may limit this process: those of its group and of the groups around it. A container sees its own
    group as the outermost, while /proc may tell the name that it has outside."""
    yield from (mounted / "memory.max", mounted / "memory" / "memory.limit_in_bytes")
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, name = line.split(":", 2)
        if number == "0" and not controllers:
            base, limit = mounted, "memory.max"
        elif "memory" in controllers.split(","):
            base, limit = mounted / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = base / name.strip("/")
        while group != base and base in group.parents:
            yield group / limit
            group = group.parent


def limit_with(python: int) -> str:
    """The limit that leaves so much for Python, to the next GB.

    >>> limit_with(Memory.divided(6 * GB).python), limit_with(10), limit_with(100 * GB)
    ('6GB', '2GB', '105GB')
    """
    heap = max(LEAST_HEAP, min(MOST_HEAP, (python + OVERHEAD) // 3))
    return f"{-(-max(LEAST, python + heap + OVERHEAD) // GB)}GB"


class TaskMemory(NamedTuple):
    """What one of the tasks that run beside each other may take."""

    usual: int
    """Work is cut so that it takes no more, where it can be cut."""
    most: int
    """What cannot be cut and takes more is refused."""
    limit: int
    """Of the whole run."""
    tasks: int

    def limit_for(self, needed: int) -> str:
        """The limit at the least with which a task may take so much, to the next GB.

        >>> Memory.divided(2 * GB).task(2).limit_for(4 * GB)
        '12GB'
        """
        return limit_with(needed * self.tasks + (self.tasks + 1) * PROCESS)


@dataclass(frozen=True)
class Memory:
    """A limit, and how it is divided."""

    limit: int
    heap: int
    """Of the JVM that this process starts, or found."""

    @staticmethod
    def divided(limit: int, heap: int | None = None) -> Memory:
        """The JVM gets a quarter of the limit, within bounds, unless its heap is given.

        >>> [Memory.divided(size * GB).heap // MB for size in (2, 8, 64)]
        [512, 2048, 4096]
        >>> Memory.divided(6 * GB).python // MB
        4224
        """
        return Memory(limit, min(MOST_HEAP, max(LEAST_HEAP, limit // 4)) if heap is None else heap)

    @property
    def python(self) -> int:
        """What is left for Python; a JVM that the user made larger than the limit leaves it a quarter."""
        return max(self.limit - self.heap - OVERHEAD, self.limit // 4)

    @property
    def batch(self) -> int:
        """Bytes of events, as columns in memory, that a batch should hold."""
        return self.limit // BATCHES

    @property
    def collected(self) -> int:
        """Bytes of partials that a batch may leave."""
        return self.python // COLLECTED

    def batch_of(self, event_bytes: int, partials: float) -> int:
        """The same where an event leaves so many partials for all queries, which are held until they are answered.

        >>> flights = Memory.divided(12 * GB)
        >>> [flights.batch_of(48, partials) // MB for partials in (0, 0.5, 20)]
        [192, 192, 110]
        """
        if not partials:
            return self.batch
        return min(self.batch, int(self.collected / (PARTIAL * partials) * event_bytes))

    @property
    def held(self) -> int:
        """Bytes of sub-windows that stay in memory; others lie on disk and are mapped."""
        return self.python // 2

    @property
    def answering(self) -> int:
        """Bytes that may be at work when windows are answered.

        >>> Memory.divided(LEAST).answering // MB
        448
        """
        return max(self.python - PROCESS, self.python // 4)

    @property
    def handed(self) -> int:
        """Bytes of keys that are handed to the JVM at once, which holds them several times over."""
        return self.heap // HANDED

    @property
    def free(self) -> int:
        """Bytes that may lie free in a process for what comes: what portions take."""
        return self.python // 4

    @property
    def kept(self) -> int:
        """Bytes of windows that are kept from batch to batch; others are answered from all their sub-windows anew."""
        return self.python // KEPT

    def summary_share(self, number: int) -> int:
        """Bytes for each of so many summaries that have no MEMORY of their own.

        >>> [Memory.divided(6 * GB).summary_share(number) // MB for number in (0, 1, 4)]
        [528, 528, 132]
        """
        return self.python // SUMMARIES // max(1, number)

    def most_rows(self, row_bytes: int) -> int:
        """Rows of a batch that the driver can hold beside their order and what is made of them."""
        return self.python // 4 // max(1, row_bytes)

    def task(self, tasks: int) -> TaskMemory:
        """What a task may take, where so many run beside each other. Their processes take some before they have begun.

        >>> [(task.usual // MB, task.most // MB) for task in (Memory.divided(size).task(2) for size in (LEAST, 6 * GB))]
        [(20, 80), (528, 1824)]
        """
        tasks = max(1, tasks)
        left = max(self.python - (tasks + 1) * PROCESS, self.python // 8)
        usual, most = min(self.python // 4, left // 2), max(self.python // 4, left)
        return TaskMemory(usual // tasks, most // tasks, self.limit, tasks)

    def settled_rows(self, row_bytes: int) -> int:
        """Rows that find their places in the order at once. They are here already, so more are better: what they make
        due is gone through once.

        >>> Memory.divided(LEAST).settled_rows(40), Memory.divided(12 * GB).settled_rows(40)
        (524288, 7235174)
        """
        return max(LEAST_AT_ONCE, self.free // (max(1, row_bytes) * WORKING))

    def portion_rows(self, row_bytes: int, tasks: int) -> int:
        """Rows that the kernel takes at once, where so many tasks run beside each other."""
        rows = self.python // 4 // max(1, tasks) // (max(1, row_bytes) * WORKING)
        return max(LEAST_AT_ONCE, min(AT_ONCE, rows))
