"""Real kills: drivers that end by SIGKILL, some with their JVM, at random moments and steps.

    make campaign ONLY=kills SEED=1234        replays the trial with this seed

A trial is a run over two streams with some queries of all kinds. It is killed a few times, started again each time with
or without a close, then let through and closed; its answers are those of a run that nobody killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

from mullion.spark.java import find_java
from mullion.testing import STEPS
from spark.test_faults import QUERIES, answers, replay, script
from spark.warm import WarmJava

MORE = """
CREATE QUERY each AS SELECT max(price) AS hi, last(symbol) AS s FROM trades [RANGE '9 s' SLIDE 1 TUPLE];
CREATE QUERY changes AS SELECT count(*) AS n, sum(volume) AS v FROM trades [RANGE '6 s'];
CREATE QUERY by_two AS SELECT symbol, avg(price) AS mean
  FROM trades [PARTITION BY symbol ROWS 2 SLIDE 4] GROUP BY symbol;
CREATE QUERY ever START AT TIMESTAMP '2023-11-14 22:13:40' AS
  SELECT count(*) AS n, sum(price) AS total FROM trades [RANGE UNBOUNDED SLIDE 3 TUPLES];
CREATE QUERY sketches AS
  SELECT approx_count_distinct(price) AS d, approx_percentile(volume, 0.9) AS p, frequent(symbol, 0.2) AS f,
    approx_frequency(symbol, 'a') AS a
  FROM trades [RANGE '20 s' SLIDE '10 s'];
CREATE QUERY arrivals AS ISTREAM (SELECT DISTINCT symbol FROM trades [RANGE '9 s' SLIDE '3 s']);
CREATE QUERY both AS SELECT symbol, volume FROM trades [RANGE '5 s' SLIDE '5 s']
  UNION ALL SELECT symbol, volume FROM quotes [RANGE '3 s'];
CREATE QUERY rest AS SELECT symbol FROM trades [RANGE '9 s' SLIDE '5 s']
  EXCEPT ALL SELECT symbol FROM quotes [RANGE '4 s'];
CREATE QUERY promising AS SELECT t.symbol, t.volume, q.volume AS quoted
  FROM trades [RANGE '5 s'] t, quotes [RANGE '3 s'] q WHERE t.symbol = q.symbol
  WITH PREFERENCE DESC estimate(t.symbol), estimate(q.symbol) BUDGET 1000000 ROWS;
CREATE QUERY fair AS SELECT t.symbol, t.price, q.price AS quoted
  FROM trades [RANGE '2 s'] t, quotes [RANGE '4 s'] q WHERE t.symbol = q.symbol AND t.volume < q.volume
  WITH PREFERENCE WEIGHTED 1 BUDGET 1000000 EVENTS;
CREATE QUERY picked AS SELECT symbol, volume FROM trades [RANGE '5 s'] WHERE volume > 50
  WITH PREFERENCE ASC volume BUDGET 1000000 ROWS;
"""
ALL = [f"{text.strip()};" for text in (QUERIES + MORE).split(";") if text.strip()]
KILLS_IN_A_TRIAL = 5
WITH_JAVA = 0.12
"""How often a kill takes the JVM as well. Otherwise the next driver takes it over: most of the time would go into
starting Java."""


class Lane:
    """A JVM for drivers that come one after the other, and the answers of a run that nobody killed."""

    def __init__(self, base: Path, stack: ExitStack) -> None:
        self.base, self._stack = base, stack
        os.environ.setdefault("JAVA_HOME", str(find_java().home))
        self.java = stack.enter_context(WarmJava())
        self.events = replay(base / "events", number=6, clean=True)
        self.whole = self._uninterrupted()

    def _uninterrupted(self) -> dict[str, Any]:
        path = self.base / "whole.sql"
        path.write_text(script(self.events, "\n".join(ALL)))
        self._drive(None, [], [str(path), str(self.base / "whole"), str(self.base / "state"), "close"])
        self.java.take_over()
        found = answers(self.base / "whole")
        assert len(found) >= len(ALL) and all(found.values()), "a query has no answer"
        return found

    def trial(self, seed: int, most: int = KILLS_IN_A_TRIAL) -> int:
        """One run, killed at most so often; returns how often it was."""
        dice = random.Random(seed)
        path, out, state = (self.base / f"{seed}{end}" for end in (".sql", ".out", ".state"))
        path.write_text(script(self.events, "\n".join(dice.sample(ALL, 4))))
        kills = 0
        for left in reversed(range(most + 1)):
            too = [self.java.pid] if dice.random() < WITH_JAVA else []
            close = "close" if not left or dice.random() < 0.5 else "open"
            killed = False
            try:
                killed = self._drive(dice if left else None, too, [str(path), str(out), str(state), close])
            finally:
                if killed and too:
                    self.java = self._stack.enter_context(WarmJava())
                else:
                    self.java.take_over()
            kills += killed
        found = answers(out)
        wrong = [name for name in found if promised(found[name]) != promised(self.whole[name])]
        assert not wrong, f"seed {seed}: {wrong} differ from a run that was not killed"
        return kills

    def _drive(self, dice: random.Random | None, too: list[int], arguments: list[str]) -> bool:
        """Run to the end, or to a kill of the driver, and of these others; whether it was killed."""
        command = [sys.executable, str(Path(__file__).parents[1] / "spark" / "killed_run.py"), *arguments]
        from_inside = dice is not None and dice.random() < 0.6
        if dice is not None and from_inside:
            command += [dice.choice(STEPS), str(dice.randrange(1, 4)), *map(str, too)]
        with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, env=self.java.environment) as child:
            try:
                assert child.stdout is not None
                if dice is not None and not from_inside:
                    child.stdout.readline()
                    time.sleep(dice.random() * 1.5)
                    for pid in (*too, child.pid):
                        os.kill(pid, signal.SIGKILL)
                _, errors = child.communicate(timeout=600)
            finally:
                child.kill()
        assert child.returncode in (0, -signal.SIGKILL), errors.decode()
        return child.returncode != 0


def promised(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as far as they are promised. A trial has other neighbours than the whole run, so its windows are cut
    elsewhere: variances may differ by 1e-9, all else by nothing."""
    return [row | {"spread": f"{row['spread']:.9g}"} if row.get("spread") is not None else row for row in rows]


@contextmanager
def lane(base: Path) -> Iterator[Lane]:
    with ExitStack() as stack:
        yield Lane(base, stack)
