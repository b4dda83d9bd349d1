"""Generated IP connections on several links, like the trace of golab 3.6.

The trace (LBL-CONN-7) has the TCP connections of a laboratory with the world; destinations decide over which link they
go. What the experiments need of it is here:

- 1,647 sources, few of which make most of the traffic, and about ten times as many pairs of source and destination;
- sources use links very differently, so some are on one of two links only: negation finds something,
  and about two of five of its results end early, as in the paper (3.6.4);
- one connection per unit of time and link, on average;
- telnet is so much more frequent than ftp that its join has ten times as many results; in windows of WINDOW units the
  join of the ftp connections of two links has about as many results as one link has connections.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

UNIT = 1_000_000
"""Microseconds in a unit of time."""
WINDOW = 200_000
"""Units in which ftp's join is as large as its input."""

PROTOCOLS = {"smtp": 0.41, "nntp": 0.25, "telnet": 0.12, "http": 0.12, "ftp": 0.038, "finger": 0.062}
"""Shares of connections: telnet has sqrt(10) times that of ftp."""

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("duration", pa.float64()),
        ("protocol", pa.string()),
        ("payload", pa.int64()),
        ("source", pa.int64()),
        ("destination", pa.int64()),
    ]
)

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Connections:
    """A network whose links can be listened to."""

    seed: int = 1993
    sources: int = 1_647
    pairs: int = 27_000
    """Of a link; the rarer ones seldom come, so that even long windows hold about ten times as many as sources."""
    destinations: int = 6_000
    skew: float = 0.85
    """The exponent of Zipf's law that sources, destinations and a source's traffic with its destinations follow."""
    liking: float = 1.5
    """How differently a source uses links: the standard deviation of a lognormal factor for each link."""

    @cached_property
    def _popularity(self) -> npt.NDArray[np.float64]:
        return np.random.default_rng(self.seed).permutation(_zipf(self.sources, self.skew))

    def link(self, number: int, events: int) -> pa.Table:
        """The first connections of a link, in the order of time."""
        random = np.random.default_rng([self.seed, number])
        source, destination, share = self._pairs(number, random)
        chosen = random.choice(self.pairs, events, p=share)
        times = np.sort(random.integers(0, events * UNIT, events))
        names, shares = np.array(list(PROTOCOLS)), np.array(list(PROTOCOLS.values()))
        columns = [
            pa.array(times, pa.int64()).cast(SCHEMA.field("ts").type),
            random.exponential(30.0, events),
            names[random.choice(len(names), events, p=shares / shares.sum())],
            random.lognormal(7.0, 2.0, events).astype(np.int64),
            source[chosen],
            destination[chosen],
        ]
        return pa.table(columns, schema=SCHEMA)

    def _pairs(self, number: int, random: np.random.Generator) -> tuple[Numbers, Numbers, npt.NDArray[np.float64]]:
        """Sources and destinations that talk over a link, and how much of its traffic is theirs."""
        traffic = self._popularity * random.lognormal(0.0, self.liking, self.sources)
        traffic /= traffic.sum()
        more = random.choice(self.sources, self.pairs - self.sources, p=self._popularity)
        source = np.sort(np.concatenate([np.arange(self.sources), more]))
        host = random.choice(self.destinations, self.pairs, p=_zipf(self.destinations, self.skew))
        rank = np.arange(self.pairs) - np.searchsorted(source, source) + 1
        among = rank**-self.skew
        share = among / np.bincount(source, among)[source] * traffic[source]
        return source, number * self.destinations + host, share / share.sum()


def join_size(left: pa.Table, right: pa.Table, protocol: str) -> int:
    """How many pairs of connections of a protocol have the same source."""
    counts = [_sources(table, protocol) for table in (left, right)]
    most = max(map(len, counts))
    return int(np.prod([np.pad(count, (0, most - len(count))) for count in counts], axis=0).sum())


def _sources(table: pa.Table, protocol: str) -> Numbers:
    chosen = table["protocol"].to_numpy() == protocol
    return np.bincount(table["source"].to_numpy()[chosen], minlength=1)


def _zipf(size: int, skew: float) -> npt.NDArray[np.float64]:
    weights = np.arange(1, size + 1) ** -skew
    return weights / weights.sum()
