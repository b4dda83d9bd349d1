"""A script from its first line to its last answer, with what is said meanwhile on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from mullion.surface.batch_log import BatchLog
from mullion.surface.compiling import telling_of_compiling
from mullion.surface.interrupts import Interrupts
from mullion.surface.progress import Progress, warnings
from mullion.surface.requests import Log, RunRequest
from mullion.surface.starting import imported_engine
from mullion.surface.summary import how_it_stopped, summarize, write_stats
from mullion.surface.warned import Warned, listening

if TYPE_CHECKING:
    from mullion.engine import Engine


class ScriptRun:
    """On a terminal a line of progress is shown; elsewhere a line is written for each batch."""

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        silent = request.quiet or (request.log is None and self.console.is_terminal)
        self.lines = None if silent else BatchLog(_on_stderr, (request.log or Log.text).value)
        self.progress = Progress(self.console, wanted=not request.quiet and self.lines is None)
        self._warned = Warned(self._warn) if self.lines is None else self.lines.warned
        self._began = time.monotonic()
        self._closed_before = False

    @property
    def seconds(self) -> float:
        """How long the run has taken so far."""
        return time.monotonic() - self._began

    def to_the_end(self) -> int:
        """Run to the end or to a stop; returns the exit code."""
        request = self.request
        with (
            listening(self._warned),
            Interrupts(self.progress, request.out, request.checkpoint) as interrupts,
        ):
            try:
                self.progress.show("starting")
                saw = self.progress.update if self.lines is None else self.lines.update
                with imported_engine()(
                    out=request.out,
                    checkpoint=request.checkpoint,
                    config=request.config,
                    on_batch=saw,
                    **vars(request.options),
                ) as engine:
                    self._play(engine, interrupts)
            finally:
                self.progress.hide()
        self._conclude(engine)
        return interrupts.code if engine.was_stopped else 0

    def _play(self, engine: Engine, interrupts: Interrupts) -> None:
        """Carry out the script, and read its streams."""
        from mullion.service.operation import asked_sources
        from mullion.spark.jvm import log_file
        from mullion.spark.sources import check_there

        request, progress = self.request, self.progress
        explanations = engine.execute(request.text)
        if explanations:
            progress.hide()
            typer.echo("\n\n".join(map(str, explanations)))
        if self._needs_spark(engine):
            check_there(asked_sources(engine.catalog), engine.catalog.path_places)
            progress.show("starting Spark")
            _ = engine.session
        if self.lines is not None:
            self.lines.begin(log_file())
        interrupts.now_stop(engine)
        progress.show("reading")
        said = None if self.lines is None else partial(self.lines.say, "compile")
        with telling_of_compiling(progress, said):
            engine.start(follow=request.follow, close=request.close, every=request.every)
            self._closed_before = all(run.closed for run in engine.runs.values())
            progress.begin(engine)
            interrupts.repeat()
            engine.wait(request.seconds)
            engine.stop()
        if engine.questions and not engine.was_stopped:
            progress.hide()
            _answer_questions(engine)
        progress.show("closing")
        if request.stats is not None:
            write_stats(request.stats, engine, self.seconds)

    def _needs_spark(self, engine: Engine) -> bool:
        """Whether Spark reads the streams. Otherwise it starts when a query needs it."""
        from mullion.spark.own_files import plain_files

        if self.request.follow or self.request.checkpoint is not None:
            return True
        return any(plain_files(stream.stored) is None for stream in engine.catalog.streams.values())

    def _conclude(self, engine: Engine) -> None:
        """Say what came of it."""
        request, lines = self.request, self.lines
        for sentence in warnings(
            engine.counts,
            request.out,
            engine.relations.bad,
            engine.stopped,
            engine.relations.promising,
            engine.relations.evicted,
            engine.relations.scheduled,
        ):
            self._warned.warn(sentence)
        if not request.quiet:
            summarize(self.console, lines, engine, self.seconds, request.out)
        note = partial(typer.echo, err=True) if lines is None else lines.note
        if engine.was_stopped:
            note(how_it_stopped(engine, request.out, request.checkpoint))
        elif not request.quiet:
            for sentence in self._notes_on_the_end(engine):
                note(sentence)

    def _warn(self, sentence: str) -> None:
        """Above the line of progress, if there is one."""
        self.console.print(Text.assemble(("warning:", "bold yellow"), f" {sentence}"))

    def _notes_on_the_end(self, engine: Engine) -> Iterator[str]:
        """Whether the end of the input was the end of the run."""
        from mullion.catalog.closing import stays_open

        if self._closed_before:
            yield "there was nothing to do: this run was closed before, and nothing has come since"
        left_open = stays_open(run.watermark for run in engine.runs.values() if run.bounded and not run.closed)
        if left_open is not None:
            yield left_open


def _answer_questions(engine: Engine) -> None:
    """Print the answers of a script's questions."""
    from mullion.surface.printing import print_answer

    for question in engine.questions:
        print_answer(engine.answer(question))


def _on_stderr(text: str) -> None:
    """Whole lines, at once: others read along."""
    sys.stderr.write(text)
    sys.stderr.flush()
