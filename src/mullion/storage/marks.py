"""The places of commits, in their order."""

from __future__ import annotations

from dataclasses import dataclass

PATTERN = r"(?:\d{12}|-\d{11})\.[01](?:\.\d{9})?"
"""The text of a mark, as a regular expression."""


@dataclass(frozen=True, order=True)
class Mark:
    """The place of a commit: a batch, or the end of the input after it, or a heartbeat between it and the next batch.

    Texts are in the order of the marks, also with a checksum behind a dash.

    >>> texts = [Mark(-1, beat=1).text, Mark(7).text, Mark(7, beat=2).text, Mark(7, end=True).text]
    >>> texts, texts == sorted(texts), Mark.parse(texts[2]) == Mark(7).next_beat.next_beat
    (['-00000000001.0.000000001', '000000000007.0', '000000000007.0.000000002', '000000000007.1'], True, True)
    """

    batch: int
    """-1 before the first."""
    end: bool = False
    beat: int = 0

    @property
    def text(self) -> str:
        beat = f".{self.beat:09d}" if self.beat else ""
        return f"{self.batch:012d}.{int(self.end)}{beat}"

    @property
    def next_beat(self) -> Mark:
        return Mark(self.batch, beat=self.beat + 1)

    @staticmethod
    def parse(text: str) -> Mark:
        batch, end, *beat = text.split(".")
        return Mark(int(batch), end == "1", int(beat[0]) if beat else 0)


BEFORE_ALL = Mark(-1)
"""Before the first batch."""
