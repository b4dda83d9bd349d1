"""The command line. Heavy modules are imported by the command that needs them, so that help comes at once."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from mullion import __version__
from mullion.errors import MullionError, closest
from mullion.options import DEFAULTS, Expiry, Method, Sharing, Slicing, Way

if TYPE_CHECKING:
    from rich.console import Console

    from mullion.engine import Engine
    from mullion.surface.batch_log import BatchLog
    from mullion.surface.progress import Progress

SIGNALLED = 128
"""The exit code after a signal is this and its number, as shells have it: 130 after Ctrl-C, 143 after SIGTERM."""

app = typer.Typer(
    name="mullion",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    suggest_commands=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


class Printed(StrEnum):
    auto = "auto"
    text = "text"
    csv = "csv"
    json = "json"


class Log(StrEnum):
    text = "text"
    json = "json"


class Format(StrEnum):
    text = "text"
    json = "json"
    svg = "svg"


Script = Annotated[str, typer.Argument(metavar="SCRIPT.sql", help="A script of Mullion SQL; - reads standard input.")]


def main() -> None:
    """The `mullion` command."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    # A failure is told once, by us; the bridge to Java would print it as a stack trace as well.
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    app(prog_name="mullion")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mullion {__version__}")
        raise typer.Exit


@app.callback()
def _mullion(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Answer many standing sliding-window SQL queries over a stream, for about the price of one."""


@app.command()
def run(
    script: Script,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where answers go: DIR/<query>/*.parquet.")],
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Remember here how far the run is, to go on after a stop or when there is more to read."
        ),
    ] = None,
    close: Annotated[
        bool, typer.Option("--close", help="Nothing more will come: also answer what a checkpoint would leave open.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Remove answers of another run or checkpoint from --out first.")
    ] = False,
    compact: Annotated[
        bool, typer.Option("--compact/--no-compact", help="Merge the files of a query when they become many.")
    ] = True,
    follow: Annotated[bool, typer.Option("--follow", help="Keep reading new events until stopped.")] = False,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Follow for so long, for example '1 min'.")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Following, begin a batch at most so often, for example '10 s'."),
    ] = None,
    sharing: Annotated[Sharing, typer.Option(help="Whether queries share their work.")] = DEFAULTS.sharing,
    slicing: Annotated[Slicing, typer.Option(help="How windows are cut into slices.")] = DEFAULTS.slicing,
    way: Annotated[
        Way,
        typer.Option(help="Who aggregates: Spark itself, a kernel over its rows, or one that reads files directly."),
    ] = DEFAULTS.way,
    method: Annotated[
        Method, typer.Option(help="How the kernel goes from predicates to partials: by fragments, or row by row.")
    ] = DEFAULTS.method,
    expiry: Annotated[
        Expiry,
        typer.Option(help="How rows leave joins: as update patterns allow, by negative tuples, or found by a scan."),
    ] = DEFAULTS.expiry,
    shard_above: Annotated[
        int, typer.Option(metavar="GROUPS", help="Keep the state of more groups than this on executors.")
    ] = DEFAULTS.shard_above,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Run on this Spark cluster, for example spark://host:7077.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be given many times.")
    ] = None,
    most_answers: Annotated[
        int, typer.Option(metavar="ROWS", min=1, help="Stop a query that would answer more than this in one batch.")
    ] = DEFAULTS.most_answers,
    most_held: Annotated[
        int, typer.Option(metavar="ROWS", min=1, help="Stop a join, DISTINCT, ... that holds more rows than this.")
    ] = DEFAULTS.most_held,
    stats: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write counts and the plan to FILE as JSON.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse declared columns that no file has, instead of a warning.")
    ] = False,
    log: Annotated[
        Log | None,
        typer.Option(help="A line on stderr for each batch; without a terminal this is text unless told otherwise."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no log and no summary.")] = False,
) -> None:
    """Read what the sources hold, answer every standing query, and end.

    With a checkpoint, windows that later events may still fall into stay open, and the same command goes on when there
    are more. Without one, or with --close, the end of the input is the end of the stream.

    Sources that never end (kafka, rate, socket) are followed until stopped. Relative paths in the script are relative
    to the current directory. Ctrl-C or SIGTERM stops after the current batch, with the exit code 130 or 143.
    """
    with told():
        text = read_script(script)
        seconds = None if for_ is None else _seconds(for_)
        places = _checked_places(out, checkpoint, stats)
        config = _settings(master, conf or [])
        choices: dict[str, Any] = {"sharing": sharing, "slicing": slicing, "way": way, "method": method}
        choices |= {"expiry": expiry, "shard_above": shard_above, "most_answers": most_answers, "most_held": most_held}
        choices |= {"config": config, "overwrite": overwrite, "compact": compact, "strict": strict}
        code = _run(text, *places, follow, seconds, close, every, choices, stats, log, quiet)
    raise typer.Exit(code)


@app.command()
def explain(
    script: Script,
    format_: Annotated[Format, typer.Option("--format", help="For people, for programs, or a drawing.")] = Format.text,
) -> None:
    """Show the shared plan of a script's queries, with its reasons."""
    with told():
        text = read_script(script)
        from mullion.engine import Engine

        with Engine() as engine:
            engine.execute(text)
            explanation = engine.explain()
        forms = {Format.json: explanation.to_json, Format.svg: explanation.to_svg}
        typer.echo(forms.get(format_, explanation.__str__)())


@app.command()
def ask(
    script: Script,
    question: Annotated[
        str, typer.Argument(metavar="SELECT", help="The question, such as SELECT ... FROM s [ROWS 3].")
    ],
    format_: Annotated[
        Printed, typer.Option("--format", help="How to print the answer; auto is text on a terminal, else CSV.")
    ] = Printed.auto,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but the answer, if it holds up to the newest event.")
    ] = False,
) -> None:
    """Answer a one-time question after the script's input.

    The stream keeps the events that the question needs. Up to which event time the answer holds, and what it was made
    from, is said first: above the table, or on stderr for CSV and JSON.
    """
    with told():
        text = read_script(script)
        from mullion.language.parse import parse_query

        parse_query(question)
        from mullion.engine import Engine
        from mullion.surface.printing import print_answer

        with Engine() as engine:
            engine.execute(text)
            engine.questions.clear()
            engine.prepare(question)
            engine.run()
            answer = engine.ask(question)
            print_answer(answer, format_.value, quiet=quiet)


@app.command()
def demo(
    seconds: Annotated[
        float | None, typer.Option(min=1, help="How long events flow; without it the whole demo takes under a minute.")
    ] = None,
) -> None:
    """Watch 100 standing queries over generated trades, beside one query alone."""
    began = time.monotonic()
    with told():
        from rich.console import Console

        from mullion.surface.demo import show

        show(Console(), began=began, seconds=seconds)


@app.command()
def repair(
    checkpoint: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of a run.")],
    check: Annotated[bool, typer.Option("--check", help="Only say what is wrong and what can be done.")] = False,
) -> None:
    """Look for damage in a checkpoint, and go back to the last commit that is whole where the input can be read again.

    Answers that came after it are written again by the next run. Files that are in the way are moved, not deleted.
    """
    with told():
        from mullion.spark.repair import Repair
        from mullion.storage.lock import Lock
        from mullion.storage.places import local_path

        place = local_path(checkpoint, "checkpoint").absolute()
        lock = Lock(place / ".lock", place, "the checkpoint")
        at_work = Repair(place)
        if place.is_dir():
            lock.take()
        try:
            found = at_work.findings() if check else at_work.mend()
        finally:
            lock.release()
        for finding in found:
            typer.echo(f"{finding.part}: {finding.problem.message}\n  {finding.advice}")
        if not found:
            typer.echo(f"{checkpoint} is whole")
        elif check or any(finding.cannot for finding in found):
            typer.echo("nothing was changed", err=True)
            raise typer.Exit(1)
        else:
            moved = "" if at_work.aside is None else f"; what was in the way is in {at_work.aside}"
            typer.echo(f"went back{moved}; start the run again to go on")


@app.command()
def doctor() -> None:
    """Check Python, Java, Spark, memory and ports, and say how to mend what is wrong."""
    with told():
        from rich.console import Console

        from mullion.surface.doctor import print_report

        well = print_report(Console())
    raise typer.Exit(0 if well else 1)


# Running a script


def _answer_questions(engine: Any) -> None:
    """Print the answers of a script's questions."""
    from mullion.surface.printing import print_answer

    for question in engine.questions:
        answer = engine.answer(question)
        print_answer(answer)


def _run(
    text: str,
    out: Path,
    checkpoint: Path | None,
    follow: bool,
    seconds: float | None,
    close: bool,
    every: str | None,
    choices: dict[str, Any],
    stats: Path | None,
    log: Log | None,
    quiet: bool,
) -> int:
    """Run to the end or to a stop; returns the exit code."""
    from rich.console import Console

    from mullion.surface.batch_log import BatchLog
    from mullion.surface.progress import Progress, warnings

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    lines = None if quiet or (log is None and console.is_terminal) else BatchLog(_on_stderr, (log or Log.text).value)
    note = partial(typer.echo, err=True) if lines is None else lines.note
    progress = Progress(console, wanted=not quiet and lines is None)
    if lines is not None:
        logging.getLogger("mullion").addHandler(lines)
    began = time.monotonic()
    with Interrupts(progress, out, checkpoint) as interrupts:
        try:
            progress.show("starting")
            from mullion.engine import Engine
            from mullion.spark.jvm import log_file

            saw = progress.saw if lines is None else lines.saw
            with Engine(out=out, checkpoint=checkpoint, on_batch=saw, **choices) as engine:
                explanations = engine.execute(text)
                if explanations:
                    progress.hide()
                    typer.echo("\n\n".join(map(str, explanations)))
                progress.show("starting Spark")
                _ = engine.session
                if lines is not None:
                    lines.begin(log_file())
                interrupts.now_stop(engine)
                progress.show("reading")
                engine.start(follow=follow or seconds is not None, close=close, every=every)
                finished_before = all(run.closed for run in engine.runs.values())
                progress.begin(engine)
                interrupts.repeat()
                engine.wait(seconds)
                engine.stop()
                if engine.questions and not engine.was_stopped:
                    progress.hide()
                    _answer_questions(engine)
                progress.show("closing")
                if stats is not None:
                    _write_stats(stats, engine, time.monotonic() - began)
        finally:
            progress.hide()
    for sentence in warnings(engine.counts, out, engine.relations.bad, engine.missing_answers, engine.stopped):
        if lines is None:
            _say("warning", "yellow", sentence)
        else:
            lines.warn(sentence)
    if not quiet:
        _summarize(console, lines, engine, time.monotonic() - began, out, log_file())
    if engine.was_stopped:
        note(_stopped(engine, out, checkpoint))
        return interrupts.code
    for sentence in () if quiet else _told_of_the_end(engine, finished_before):
        note(sentence)
    return 0


def _on_stderr(text: str) -> None:
    """Whole lines, at once: others read along."""
    sys.stderr.write(text)
    sys.stderr.flush()


def _told_of_the_end(engine: Engine, finished_before: bool) -> Iterator[str]:
    """Whether the end of the input was the end of the run."""
    from mullion.catalog.closing import stays_open

    if finished_before:
        yield "there was nothing to do: this run was closed before, and nothing has come since"
    left_open = stays_open(run.watermark for run in engine.runs.values() if run.bounded and not run.closed)
    if left_open is not None:
        yield left_open


def _summarize(
    console: Console,
    lines: BatchLog | None,
    engine: Engine,
    seconds: float,
    out: Path,
    spark_log: Path | None,
) -> None:
    from mullion.surface.progress import Seen, plural

    now = Seen.of(engine)
    number = len(engine.catalog.queries) + len(engine.catalog.relations)
    events = now.events - sum(counts.events for counts in engine.counts_at_start.values())
    answers = now.answers - engine.answers_at_start
    queries, read, made = plural(number, "query", "queries"), plural(events, "event"), plural(answers, "answer")
    summary = f"{queries}, {read}, {made} in {seconds:.1f} s"
    places = f"the answers are in {out / '<query>' / '*.parquet'}"
    if lines is None:
        console.print(summary, markup=False)
        console.print(places, markup=False)
        return
    facts = {"queries": number, "events": events, "answers": answers, "seconds": round(seconds, 3), "out": str(out)}
    logged = "" if spark_log is None else f"; Spark's log is {spark_log}"
    lines.end(f"{summary}; {places}{logged}", **facts, spark_log=None if spark_log is None else str(spark_log))


def _stopped(engine: Engine, out: Path, checkpoint: Path | None) -> str:
    done = {name: run.committed.batch + 1 for name, run in engine.runs.items() if run.committed is not None}
    if not done:
        after = "before the first batch"
    elif len(done) == 1:
        after = f"after batch {next(iter(done.values()))}"
    else:
        after = "after " + ", ".join(f"batch {number} of {name}" for name, number in done.items())
    return f"stopped {after}; {_how_to_go_on(out, checkpoint)}"


def _how_to_go_on(out: Path, checkpoint: Path | None) -> str:
    if checkpoint is not None:
        return "run the same command again to continue"
    return f"answers so far are in {out}; use --checkpoint to be able to continue"


def _write_stats(file: Path, engine: Engine, seconds: float) -> None:
    found = {
        "mullion": __version__,
        "seconds": round(seconds, 3),
        "queries": len(engine.catalog.queries) + len(engine.catalog.relations),
        "answers": engine.answers,
        "missing_answers": engine.missing_answers,
        "stopped": engine.stopped,
        "streams": {name: asdict(counts) for name, counts in engine.counts.items()},
        "relations": engine.relations.counts,
        "explanation": engine.explain().to_dict(),
    }
    file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


class Interrupts:
    """Ctrl-C and SIGTERM while a script runs.

    Until events are read a signal ends the process at once: nothing has been written. From then on the first one stops
    after the current batch, and the next one ends the process. The Java side ends with us, whatever it is doing.
    """

    def __init__(self, progress: Progress, out: Path, checkpoint: Path | None) -> None:
        self._progress, self._out, self._checkpoint = progress, out, checkpoint
        self._engine: Engine | None = None
        self._count = 0
        self.code = 0
        """What the process ends with after a signal."""
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._heard) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def now_stop(self, engine: Engine) -> None:
        """Batches are about to run: a signal asks this engine to stop."""
        self._engine = engine

    def repeat(self) -> None:
        """Ask again: an engine that starts forgets what was asked of it before."""
        if self._count and self._engine is not None:
            self._engine.request_stop()

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self._count, self.code = self._count + 1, SIGNALLED + number
        if self._engine is None:
            _leave("stopped before any event was read", self.code)
        if self._count > 1:
            _leave(f"stopped within a batch; {_how_to_go_on(self._out, self._checkpoint)}", self.code)
        self._engine.request_stop()
        self._progress.show("stopping after this batch (Ctrl-C again: at once)")


def _leave(message: str, code: int) -> NoReturn:
    """End the process from a signal handler: no exit hooks, which would wait for Java, and no buffered writing."""
    clear = "\x1b[?25h\r\x1b[K" if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{clear}{message}\n".encode())
    os._exit(code)


# What the user wrote


def read_script(name: str) -> str:
    """The text of a script, or a sentence about why it cannot be read."""
    if name == "-":
        return _decoded(sys.stdin.buffer.read(), "standard input")
    path = Path(name)
    try:
        return _decoded(path.read_bytes(), name)
    except FileNotFoundError:
        folder = path.parent
        near = closest(path.name, [p.name for p in folder.iterdir() if p.is_file()]) if folder.is_dir() else None
        raise MullionError(f"there is no script {name}", hint=near or f"looked in {folder.resolve()}") from None
    except IsADirectoryError:
        raise MullionError(f"{name} is a directory", hint="name a script in it") from None
    except OSError as error:
        raise MullionError(f"the script {name} cannot be read: {error.strerror}") from None


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MullionError(f"{name} is not UTF-8 text (line {line})", hint="save it as UTF-8") from None


def _seconds(text: str) -> float:
    from mullion.language.parse import parse_duration

    return parse_duration(text) / 1e6


def _settings(master: str | None, pairs: list[str]) -> dict[str, str]:
    """What --master and --conf ask of Spark."""
    settings = {"spark.master": master} if master else {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise MullionError(f"--conf {pair} is no setting", hint="write --conf spark.executor.memory=2g")
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
        raise MullionError(f"--stats {stats} cannot be written", hint="name a file in a directory that is there")
    return answers, state


# Telling what went wrong

_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR)


@contextmanager
def told() -> Iterator[None]:
    """Errors become sentences on stderr and an exit code."""
    try:
        yield
    except MullionError as error:
        _say("error", "red", str(error))
        raise typer.Exit(1) from None
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        raise typer.Exit(SIGNALLED + signal.SIGINT) from None
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE:
            _tell_bug(error)
        where = f"{error.filename}: " if error.filename else ""
        _say("error", "red", f"{where}{error.strerror}")
        raise typer.Exit(1) from None
    except Exception as error:
        _tell_bug(error)


def _say(kind: str, color: str, text: str) -> None:
    label = (
        typer.style(f"{kind}:", fg=color, bold=True)
        if sys.stderr.isatty() and "NO_COLOR" not in os.environ
        else f"{kind}:"
    )
    typer.echo(f"{label} {text}", err=True)


def _tell_bug(error: Exception) -> NoReturn:
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="mullion-bug-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write(f"mullion {__version__}\n{' '.join(sys.argv)}\n\n")
        traceback.print_exception(error, file=file)
    first = (str(error).strip().splitlines() or [""])[0]
    _say("error", "red", f"this is a bug in Mullion: {type(error).__name__}: {first} (details in {file.name})")
    raise typer.Exit(1) from None


if __name__ == "__main__":
    main()
