"""What `make test` tries in short, at length, in random trials: damaged checkpoints, seams between runs, neighbours
that come and go, real kills.

    make campaign                             all of them
    make campaign ONLY=seams SEED=1234        one trial again

Every trial has a seed and is told by it when it fails.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

Trial = Callable[[int], int | None]
"""Plays the trial of a seed and returns how many it counts for, if not for one. Raises when something is silently
wrong."""


@contextmanager
def damage(base: Path) -> Iterator[Trial]:
    from faults.damage import trial

    def play(seed: int) -> None:
        trial(seed)

    yield play


@contextmanager
def seams(base: Path) -> Iterator[Trial]:
    from seam_trials import drawn, trials
    from seams import play

    def play_one(seed: int) -> None:
        with tempfile.TemporaryDirectory(dir=base) as directory:
            play(drawn(trials(), seed), Path(directory))

    yield play_one


@contextmanager
def neighbours(base: Path) -> Iterator[Trial]:
    from neighbours import trial

    yield trial


@contextmanager
def kills(base: Path) -> Iterator[Trial]:
    from faults.kills import lane

    with tempfile.TemporaryDirectory(dir=base) as directory, lane(Path(directory)) as drivers:
        yield drivers.trial


KINDS = {
    "damage": (damage, 400, "trials", "silently wrong", 1),
    "seams": (seams, 100, "", "different", 1),
    "neighbours": (neighbours, 200, "", "different", 1),
    "kills": (kills, 100, "", "different", 2),
}
"""How a kind is played, how much of it, what that is called, what is counted, and in how many threads."""


def campaign(kind: str, seed: int | None, wanted: int, base: Path) -> tuple[str, int]:
    """Play until enough is done; returns the line that tells of it, and how many trials failed."""
    make, _, unit, wrong, threads = KINDS[kind]
    lanes = 1 if seed is not None else threads

    def one_lane(number: int) -> tuple[int, list[int]]:
        done, failed = 0, []
        with make(base) as play:
            at = number if seed is None else seed
            while done < (wanted / lanes if seed is None else 1) and (seed is None or at == seed):
                try:
                    done += play(at) or 1
                except Exception:
                    traceback.print_exc()
                    failed.append(at)
                    done += 1
                    print(f"FAILED: make campaign ONLY={kind} SEED={at}", file=sys.stderr, flush=True)
                at += lanes
        return done, failed

    with ThreadPoolExecutor(lanes) as pool:
        found = list(pool.map(one_lane, range(lanes)))
    failed = sorted(at for _, some in found for at in some)
    line = f"{kind} {sum(done for done, _ in found)}{f' {unit}' if unit else ''}, {len(failed)} {wrong}"
    return line + (f" (seeds {', '.join(map(str, failed))})" if failed else ""), len(failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[*KINDS, ""], default="", help="only this kind")
    parser.add_argument("--seed", default="", help="only the trial with this seed; needs --only")
    parser.add_argument("--trials", default="", help="so many of each kind")
    chosen = parser.parse_args()
    if chosen.seed and not chosen.only:
        parser.error("a seed is one of a kind: say which with ONLY=damage, seams, neighbours or kills")
    seed = int(chosen.seed) if chosen.seed else None
    # What runs warn of, such as times before 1971, is what trials are made of.
    logging.getLogger("mullion").setLevel(logging.CRITICAL)
    lines, failed = [], 0
    with tempfile.TemporaryDirectory(prefix="mullion-campaign-") as directory:
        for kind in [chosen.only] if chosen.only else KINDS:
            print(f"{kind} ...", flush=True)
            line, wrong = campaign(kind, seed, int(chosen.trials or KINDS[kind][1]), Path(directory))
            print(line, flush=True)
            lines.append(line)
            failed += wrong
    print("; ".join(lines))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
