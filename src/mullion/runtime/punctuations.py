"""Events of keys that are over (PUNCTUATE): they came although the stream had said that none would.

    events of a batch --after the end of their key?--> aside, `_broken`
                      '--> taken; those for which PUNCTUATE's condition is true end their keys

What is known of keys commits with the batch that tells it, so a batch that is played again sets the same events aside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mullion.algebra.column_names import names_read
from mullion.algebra.streams import Stream
from mullion.expressions.arrays import Mask
from mullion.expressions.vector import has_arrow_type
from mullion.operators.closed_keys import SINCE, ClosedKeys
from mullion.runtime.intake import OVER
from mullion.slices.bounds import Sifted
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input
from mullion.storage.files import CommittedFiles
from mullion.storage.marks import Mark
from mullion.storage.state_files import StateFiles, files_of

AFTER = "#after"
"""The column that tells after which offset of the source keys were said to be over."""
MOST_SAID = 64
"""Tables of such keys, before they become one."""


class Punctuations:
    """What a stream has said of its keys. `files` are those of the checkpoint, if there is one."""

    def __init__(self, stream: Stream, files: CommittedFiles | None = None) -> None:
        assert stream.punctuation is not None
        self.closed = ClosedKeys(stream.punctuation, stream.types)
        read = {*stream.punctuation.columns, *names_read(stream.punctuation.when)}
        self.input = Input({name: type_ for name, type_ in stream.columns if name in read})
        self.whole = Input({name: type_ for name, type_ in stream.columns if has_arrow_type(type_)})
        self._files = None if files is None else StateFiles(files, "closed")
        self.manifest: Mapping[str, Any] = {}
        """Where everything lies."""
        self.said: tuple[pa.Table, ...] = ()
        """The keys that somebody said are over. Who reads the source again must know it, for events do not tell."""

    def broken(self, sifted: Sifted) -> Mask:
        """Which of the events that would be taken came after the end of their key."""
        taken = sifted.taken
        times = taken.column(TIME).to_numpy()
        broken = self.closed.broken(taken, times)
        kept = np.flatnonzero(~broken)
        self.closed.add(taken.take(pa.array(kept)), times[kept])
        return broken

    def close(self, keys: pa.Table, at: int, offset: int | None = None) -> pa.Table:
        """Keys are over from a time on, because somebody says so. Returns them as relations hear of them. `offset`:
        that of the last events before, if the source can be read again."""
        times = np.full(len(keys), at)
        self.closed.close(keys, times)
        ended = keys.append_column(SINCE, pa.array(times))
        if offset is not None:
            said = (*self.said, ended.append_column(AFTER, pa.array(np.full(len(keys), offset))))
            self.said = said if len(said) <= MOST_SAID else (pa.concat_tables(said).combine_chunks(),)
        return ended.append_column(OVER, pa.array(np.ones(len(keys), np.bool_)))

    def close_again(self, said: Sequence[pa.Table], low: int, high: int) -> None:
        """The keys that were said to be over between two offsets, the first included, are over once more."""
        for ended in said:
            after = ended.column(AFTER).to_numpy()
            between = np.flatnonzero((low <= after) & (after < high))
            if len(between):
                self.closed.close_ended(ended.take(pa.array(between)))

    # What a restart needs

    def forget(self, watermark: int | None) -> None:
        """Forget keys whose time the watermark has passed: what would break their punctuation is late."""
        if watermark is not None:
            self.closed.expire(watermark)

    def save(self, mark: Mark) -> None:
        """Write what is new."""
        if self._files is not None:
            said = {"said": {"said": list(self.said)}} if self.said else {}
            self.manifest = self._files.save({"keys": self.closed.parts(), **said}, mark.text)

    @property
    def names(self) -> list[str]:
        """The files that a commit stands on."""
        return sorted(files_of(self.manifest))

    def restore(self, manifest: Mapping[str, Any]) -> None:
        if self._files is not None and manifest:
            self.manifest = manifest
            left = self._files.load(manifest)
            self.closed.restore(left["keys"])
            self.said = tuple(left.get("said", {}).get("said", ()))


def without(sifted: Sifted, broken: Mask) -> Sifted:
    """What is left of a batch without some of the events that would be taken."""
    taken = sifted.taken.filter(pa.array(~broken))
    extremes = pc.min_max(taken.column(TIME)).as_py()
    counted = sifted.counted
    counted.events, counted.oldest, counted.newest = len(taken), extremes["min"], extremes["max"]
    return sifted._replace(taken=taken)
