"""`mullion demo`: a hundred standing queries over live trades, and one of them alone beside it.

The trades arrive as Parquet files, each a minute of trading. Every file goes to two engines in turn, one that answers
a single query and one that answers all of them, so that both see the same events on an equally warm machine.
"""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mullion.engine import Engine
from mullion.surface.progress import instant
from mullion.surface.trades import NOON, generate_trades

QUERIES = 100
MINUTE = 60_000_000
EVENTS_IN_A_FILE = 40_000
FILES = 10
"""Different files; after them the same trades come again, later."""

WHOLE = 42.0
"""Seconds after the command's start at which the last file is given, unless the user says how long."""

GRACE = 12.0
"""Seconds beyond that in which a file that was given may still be answered."""

SHOWN = (1, 4, 6, 11, 16, 29, 47, 75)
"""Queries whose answers are shown: some of every kind."""

TRY_NEXT = """\
Now write your own. This script needs no data; save it as monitors.sql:

  CREATE STREAM ticks USING rate OPTIONS (rowsPerSecond '1000') TIMESTAMP BY timestamp;
  CREATE QUERY load AS SELECT count(*) AS n FROM ticks [RANGE '10 s' SLIDE '2 s'];
  CREATE QUERY high AS
    SELECT value % 4 AS part, max(value) AS highest FROM ticks [RANGE '30 s' SLIDE '5 s']
    WHERE value % 100 > 90 GROUP BY value % 4;
  EXPLAIN;

and run it:

  mullion run monitors.sql --out answers --for '30 s'
"""


@dataclass(frozen=True)
class Demo:
    """A standing query of the demonstration: its name and text."""

    name: str
    text: str


def queries(number: int = QUERIES) -> list[Demo]:
    """Queries that differ in window, predicate and key."""
    return [_query(i) for i in range(number)]


def _query(i: int) -> Demo:
    where = f"volume > {50 * (i // 2)}" if i % 2 else f"price < {5 + i}"
    if i % 5 == 4:
        key = "symbol" if i % 10 == 4 else "substr(symbol, 1, 3)"
        window = f"[RANGE '{1 + i // 20} min' SLIDE '1 min']"
        traded = f"SELECT {key} AS what, sum(price * volume) AS traded FROM trades {window}"
        return Demo(f"by_{i}", f"{traded} WHERE {where} GROUP BY {key}")
    window = f"[RANGE '{30 * (1 + i % 7)} s' SLIDE '{(10, 15, 20, 30)[i % 4]} s']"
    item = ("sum(volume) AS volume", "avg(price) AS mean", "max(price) AS highest", "count(*) AS trades")[i % 4]
    return Demo(f"market_{i}", f"SELECT {item} FROM trades {window} WHERE {where}")


def show(console: Console, *, began: float, seconds: float | None = None) -> None:
    """Run the demonstration. `began` is when the command started; `seconds` is how long events flow."""
    with tempfile.TemporaryDirectory(prefix="mullion-demo-", ignore_cleanup_errors=True) as folder:
        screen = _Screen(console)
        with screen:
            stage = _Stage(Path(folder), screen)
            try:
                stage.play(began, seconds)
            except BaseException:
                with suppress(Exception):  # what stopped the demonstration is told, not what came of it
                    stage.close()
                raise
            screen.doing = "closing"
            stage.close()
    _summarize(console, stage)


@dataclass
class _Side:
    """One engine, the directory that it reads, and what its batches took."""

    engine: Engine
    directory: Path
    seconds: list[float] = field(default_factory=list)
    done: queue.Queue[float] = field(default_factory=queue.Queue)
    _before: float = 0.0

    def saw(self, engine: Engine) -> None:
        now = engine.counts["trades"].seconds
        self.done.put(now - self._before)
        self._before = now

    @property
    def rate(self) -> float | None:
        """Events a second. The first batch is left out: it compiles code."""
        taken = self.seconds[1:]
        return EVENTS_IN_A_FILE * len(taken) / sum(taken) if taken else None


class _Stage:
    """Two engines on one Spark, and the trades that go to both."""

    def __init__(self, folder: Path, screen: _Screen) -> None:
        self._screen = screen
        screen.stage = self
        self.latest: dict[str, tuple[int, str]] = {}
        self.events = self.answers = 0
        self._owner = Engine(config={"spark.sql.streaming.pollingDelay": "100ms"})
        self.queries = queries()
        self.alone: _Side | None = None
        self.all: _Side | None = None
        self._folder = folder
        self._trades: list[pa.Table] = []

    def play(self, began: float, seconds: float | None) -> None:
        """Give file after file to both engines, for so many seconds or until the command is near its minute."""
        self._screen.doing = "starting Spark"
        making = threading.Thread(target=self._make_trades, daemon=True)
        making.start()
        session = self._owner.session
        making.join()
        self.alone = self._side("alone", session, self.queries[:1])
        self.all = self._side("all", session, self.queries)
        self.all.engine.on_answer(self._keep)
        self._screen.doing = "trades arrive"
        sides = self.alone, self.all
        until = began + WHOLE if seconds is None else time.monotonic() + seconds
        for side in sides:
            self._give(side, 0)
        if not all(self._answered(side, until + GRACE) for side in sides):
            return
        for number in count(1):
            for side in sides:
                expected = 0.0 if seconds is not None else max(side.seconds[1:], default=side.seconds[0] / 4)
                if time.monotonic() + expected > until:
                    return
                self._give(side, number)
                if not self._answered(side, until + GRACE):
                    return

    def close(self) -> None:
        for side in (self.alone, self.all):
            if side is not None:
                side.engine.stop()
        self._owner.close()

    def _make_trades(self) -> None:
        trades = generate_trades(EVENTS_IN_A_FILE * FILES, start=NOON, span=FILES * MINUTE)
        self._trades = [trades.slice(i * EVENTS_IN_A_FILE, EVENTS_IN_A_FILE) for i in range(FILES)]

    def _side(self, name: str, session: Any, asked: list[Demo]) -> _Side:
        directory = self._folder / name
        directory.mkdir()
        engine = Engine(spark=session)
        side = _Side(engine, directory)
        engine.on_batch = side.saw
        path = str(directory).replace("'", "''")
        engine.execute(
            "CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT) "
            f"USING parquet OPTIONS (path '{path}', maxFilesPerTrigger '1') TIMESTAMP BY ts"
        )
        for query in asked:
            engine.query(query.text, name=query.name)
        engine.start(follow=True)
        return side

    def _give(self, side: _Side, number: int) -> None:
        """Let a file arrive: written under a hidden name first, because Spark takes what it sees."""
        later = number // FILES * FILES * MINUTE
        table = self._trades[number % FILES]
        times = pc.add(table.column("ts").cast(pa.int64()), later).cast(pa.timestamp("us", "UTC"))
        file = side.directory / f"{number:06d}.parquet"
        hidden = file.with_name(f".{file.name}")
        pq.write_table(table.set_column(0, "ts", times), hidden)
        hidden.rename(file)

    def _answered(self, side: _Side, until: float) -> bool:
        """Wait until a file is answered; False when time is over or the engine has failed."""
        while time.monotonic() < until and not side.engine.failed:
            try:
                side.seconds.append(side.done.get(timeout=0.5))
            except queue.Empty:
                continue
            if side is self.all:
                counts = side.engine.counts["trades"]
                self.events, self.answers = counts.events, counts.answers
                self._screen.batch()
            return True
        return False

    def _keep(self, query: str, rows: pa.Table) -> None:
        self.latest[query] = _latest(rows)

    def answers_shown(self) -> Iterator[tuple[Demo, int, str]]:
        """The queries to be shown that have an answer, with the newest one."""
        for query in (self.queries[i] for i in SHOWN):
            if query.name in self.latest:
                yield query, *self.latest[query.name]


def _latest(rows: pa.Table) -> tuple[int, str]:
    """The end of the newest window and its answer; of many groups the largest."""
    ends = rows.column("window_end").cast(pa.int64())
    newest = pc.max(ends).as_py()
    last = rows.filter(pc.equal(ends, newest))
    value = last.schema.names[-1]
    row = last.sort_by([(value, "descending")]).slice(0, 1).to_pylist()[0]
    more = f" (and {len(last) - 1:,} more)" if len(last) > 1 else ""
    items = ", ".join(f"{name} {_short(row[name])}" for name in last.schema.names[2:])
    return newest, f"{items}{more}"


def _short(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _side_by_side(stage: _Stage) -> Iterator[str]:
    alone, all_ = stage.alone and stage.alone.rate, stage.all and stage.all.rate
    if alone:
        yield f"{'1 query alone:':<22}{alone:>10,.0f} events/s"
    if all_:
        yield f"{f'{len(stage.queries)} queries together:':<22}{all_:>10,.0f} events/s"
    if alone and all_:
        number, times = len(stage.queries), alone / all_
        yield f"{number} queries cost {times:.1f} times what one costs: {number / times:.0f} for the price of one"


class _Screen:
    """A live table on a terminal; plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._doing = ""
        self.stage: _Stage | None = None
        if console.is_terminal:
            self._live = Live(
                get_renderable=self._draw, console=console, refresh_per_second=8, redirect_stdout=False, transient=True
            )

    def __enter__(self) -> _Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def doing(self) -> str:
        return self._doing

    @doing.setter
    def doing(self, text: str) -> None:
        self._doing = text
        if self._live is None:
            self._console.print(f"{text} ...", highlight=False)

    def batch(self) -> None:
        """A file has been answered."""
        if self._live is None and self.stage is not None and self.stage.all is not None:
            counts = f"{self.stage.events:,} events, {self.stage.answers:,} answers"
            rate = f", {self.stage.all.rate:,.0f} events/s" if self.stage.all.rate else ""
            self._console.print(f"{len(self.stage.queries)} queries: {counts}{rate}", highlight=False)

    def _draw(self) -> Group:
        parts: list[Any] = [Text(f"{self._doing} ...", style="dim")]
        stage = self.stage
        if stage is not None and stage.events:
            table = Table(
                title=f"{len(stage.queries)} standing queries, {len(SHOWN)} of them", title_justify="left", box=None
            )
            table.add_column("query", style="cyan", overflow="ellipsis", no_wrap=True, ratio=3)
            table.add_column("until", no_wrap=True, min_width=8)
            table.add_column("latest answer", style="green", overflow="ellipsis", no_wrap=True, ratio=2)
            for query, end, answer in list(stage.answers_shown()):
                table.add_row(
                    Text(query.text.removeprefix("SELECT ").replace(" FROM trades", "")),
                    instant(end).split()[1],
                    Text(answer),
                )
            counts = Text(f"{stage.events:,} events in, {stage.answers:,} answers out", style="bold")
            parts += [table, Text(), counts, *(Text(line) for line in _side_by_side(stage))]
        return Group(*parts)


def _summarize(console: Console, stage: _Stage) -> None:
    lines = list(_side_by_side(stage))
    if len(lines) < 3:
        lines.append("This machine was too busy to compare the two in time. Give it more: mullion demo --seconds 60")
    console.print(f"{stage.events:,} events, {stage.answers:,} answers", highlight=False)
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)
    console.print()
    console.print(TRY_NEXT, highlight=False, markup=False, soft_wrap=True)
