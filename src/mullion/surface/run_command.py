"""`mullion run`. Heavy modules are imported when it runs, so that help comes at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mullion.errors import MullionError
from mullion.options import DEFAULTS, Expiry, Isolation, Method, Options, Schedule, Sharing, Slicing, Way
from mullion.surface.exit_code import errors_to_exit_code
from mullion.surface.requests import Log, RunRequest
from mullion.surface.scripts import Script, script_text


def _option(help_: str, *names: str, metavar: str | None = None, least: int | None = None) -> typer.models.OptionInfo:
    return typer.Option(*names, help=help_, metavar=metavar, min=least)


def _expiry(text: str) -> Expiry:
    try:
        return Expiry(text)
    except ValueError:
        raise typer.BadParameter(f"'{text}' is not one of {', '.join(map(repr, map(str, Expiry)))}.") from None


Out = Annotated[str, _option("Where answers go: DIR/<query>/*.parquet.", metavar="DIR")]
Checkpoint = Annotated[
    str | None,
    _option("Store the progress of the run here, to go on after a stop or when there is more to read.", metavar="DIR"),
]
Close = Annotated[
    bool, _option("End the stream: also answer the windows that a checkpoint would leave open.", "--close")
]
Overwrite = Annotated[bool, _option("Remove answers of another run or checkpoint from --out first.", "--overwrite")]
Compact = Annotated[bool, _option("Merge the files of a query when they become many.", "--compact/--no-compact")]
Follow = Annotated[bool, _option("Keep reading new events until stopped.", "--follow")]
For = Annotated[str | None, _option("Follow for this long, for example '1 min'.", "--for", metavar="DURATION")]
Every = Annotated[
    str | None, _option("When following, begin a batch at most this often, for example '10 s'.", metavar="DURATION")
]
Master = Annotated[str | None, _option("Run on this Spark cluster, for example spark://host:7077.", metavar="URL")]
Conf = Annotated[list[str] | None, _option("A setting of Spark; may be repeated.", metavar="KEY=VALUE")]
StatsFile = Annotated[Path | None, _option("Write counts, memory and the plan to FILE as JSON.", metavar="FILE")]
Strict = Annotated[bool, _option("Refuse declared columns that no file has, instead of warning.", "--strict")]
LogForm = Annotated[
    Log | None, _option("Write a line to stderr for each batch; text is the default if stderr is not a terminal.")
]
Quiet = Annotated[bool, _option("No progress, no log and no summary.", "--quiet", "-q")]

SharingOf = Annotated[Sharing, _option("Whether queries share their work.")]
SlicingOf = Annotated[Slicing, _option("How windows are cut into slices.")]
WayOf = Annotated[
    Way, _option("Who aggregates: Spark itself, a kernel over Spark's rows, or a kernel that reads the files.")
]
MethodOf = Annotated[
    Method, _option("How the kernel makes partials: one for each set of satisfied predicates, or a row for each query.")
]
ExpiryOf = Annotated[
    Expiry,
    typer.Option(
        help="How rows leave joins: by update patterns (upa), negative tuples (nt) or scans.",
        parser=_expiry,
        metavar=f"<{'|'.join(Expiry)}>",
    ),
]
IsolationOf = Annotated[
    Isolation, _option("Which state questions see: that when asked (snapshot), or that when answered (the others).")
]
ScheduleOf = Annotated[Schedule, _option("When queries with SLIDE AT MOST are answered, and which together.")]
ShardAbove = Annotated[int, _option("Keep the state of more groups than this on executors.", metavar="GROUPS")]
MostAnswers = Annotated[
    int, _option("Stop a query that would answer more rows than this in one batch.", metavar="ROWS", least=1)
]
MostHeld = Annotated[
    int, _option("Stop a query whose join, DISTINCT, ... holds more rows than this.", metavar="ROWS", least=1)
]
MemoryLimit = Annotated[
    str | None,
    _option("Limit for all processes together, for example 4GB; half of the machine by default.", metavar="SIZE"),
]

BehindAfter = Annotated[
    float,
    _option("When following, the run is behind once its lag has exceeded this for as long.", metavar="SECONDS"),
]
ReliefOf = Annotated[str, _option("What a run may do when it is behind, in this order.", metavar="KINDS")]
ALL_RELIEF = ", ".join(DEFAULTS.relief)


def run(
    script: Script,
    out: Out,
    checkpoint: Checkpoint = None,
    close: Close = False,
    overwrite: Overwrite = DEFAULTS.overwrite,
    compact: Compact = DEFAULTS.compact,
    follow: Follow = False,
    for_: For = None,
    every: Every = None,
    sharing: SharingOf = DEFAULTS.sharing,
    slicing: SlicingOf = DEFAULTS.slicing,
    way: WayOf = DEFAULTS.way,
    method: MethodOf = DEFAULTS.method,
    expiry: ExpiryOf = DEFAULTS.expiry,
    schedule: ScheduleOf = DEFAULTS.schedule,
    shard_above: ShardAbove = DEFAULTS.shard_above,
    master: Master = None,
    conf: Conf = None,
    most_answers: MostAnswers = DEFAULTS.most_answers,
    most_held: MostHeld = DEFAULTS.most_held,
    memory: MemoryLimit = None,
    behind_after: BehindAfter = DEFAULTS.behind_after,
    relief: ReliefOf = ALL_RELIEF,
    isolation: IsolationOf = DEFAULTS.isolation,
    stats: StatsFile = None,
    strict: Strict = DEFAULTS.strict,
    log: LogForm = None,
    quiet: Quiet = False,
) -> None:
    """Read what the sources hold, answer every standing query, and end.

    With --checkpoint, windows that later events may still fall into stay open, and the same command goes on when
    there are more. Without it, or with --close, the end of the input is the end of the stream.

    A run follows sources that never end (kafka, rate, socket) until it is stopped. Relative paths in the script start
    at the current directory. Ctrl-C or SIGTERM stops after the current batch, with the exit code 130 or 143.
    """
    with errors_to_exit_code():
        options = Options.of(
            sharing=sharing, slicing=slicing, way=way, method=method, expiry=expiry, schedule=schedule,
            shard_above=shard_above, most_answers=most_answers, most_held=most_held, memory=memory,
            behind_after=behind_after, relief=relief, isolation=isolation,
            strict=strict, compact=compact, overwrite=overwrite,
        )  # fmt: skip
        text = script_text(script)
        seconds = None if for_ is None else _seconds(for_)
        places = _checked_places(out, checkpoint, stats)
        config = _settings(master, conf or [])
        from mullion.surface.script_run import ScriptRun

        follows = follow or seconds is not None
        request = RunRequest(text, *places, options, config, follows, seconds, close, every, stats, log, quiet)
        code = ScriptRun(request).to_the_end()
    raise typer.Exit(code)


def _seconds(text: str) -> float:
    from mullion.language.parse import parse_duration

    return parse_duration(text) / 1e6


def _settings(master: str | None, pairs: list[str]) -> dict[str, str]:
    """What --master and --conf ask of Spark."""
    settings = {"spark.master": master} if master else {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise MullionError(f"--conf {pair} is not a setting of Spark", hint="write --conf spark.executor.memory=2g")
        settings[key] = value
    return settings


def _checked_places(out: str, checkpoint: str | None, stats: Path | None) -> tuple[Path, Path | None]:
    """Before Spark starts: what would fail at the end fails now."""
    from mullion.storage.places import check_directory, local_path

    answers = local_path(out, "--out")
    state = None if checkpoint is None else local_path(checkpoint, "--checkpoint")
    for option, directory in (("--out", answers), ("--checkpoint", state)):
        if directory is not None:
            check_directory(directory, option)
    if stats is not None and (stats.is_dir() or not stats.resolve().parent.is_dir()):
        raise MullionError(f"--stats {stats} cannot be written", hint="name a file in a directory that exists")
    return answers, state
