"""Properties of an engine that can be read at any time, also after it is closed."""

from __future__ import annotations

import threading
from typing import Any

from mullion.catalog.catalog import Catalog
from mullion.runtime.counts import StreamCounts
from mullion.service.answers import AnswerStore
from mullion.service.explaining import Explainer
from mullion.service.operation import AtStart, Operation
from mullion.service.runs import Runs
from mullion.spark.backend import SparkBackend
from mullion.spark.processes import Peaks
from mullion.summaries import summary_facts


class Status:
    _answers: AnswerStore
    _runs: Runs
    _operation: Operation
    _explainer: Explainer
    _backend: SparkBackend
    _lock: threading.RLock
    _peaks: Peaks
    catalog: Catalog

    @property
    def stats(self) -> dict[str, Any]:
        """Counts, memory and the plan, as `mullion run --stats` writes them."""
        self._peaks.look(now=True)
        with self._lock:
            explanation = self._explainer.explain(None)
            share = self._runs.summary_share()
            summaries = {
                summary.definition.name: summary_facts.stats(summary, share) for summary in self._explainer.summaries()
            }
        return {
            "queries": len(self.catalog.queries),
            "answers": self.answers,
            "missing_answers": self.missing_answers,
            "stopped": self.stopped,
            "memory": {"limit": self._backend.memory.limit, "peak": self._peaks.by_kind()},
            "streams": {name: counts.facts() for name, counts in self.counts.items()},
            "monitors": {name: run.overload.report() for name, run in self._runs.streams.items()},
            "relations": self._runs.relations.counts,
            "summaries": summaries,
            "explanation": explanation.to_dict(),
        }

    @property
    def counts(self) -> dict[str, StreamCounts]:
        """What was counted for each stream."""
        return {name: run.counts for name, run in self._runs.streams.items()}

    @property
    def answers(self) -> int:
        """How many rows all queries have answered, also those of relations."""
        return self._runs.answers

    @property
    def at_start(self) -> AtStart:
        """The counts and answers of the runs before this one."""
        return self._operation.at_start

    @property
    def stopped(self) -> dict[str, str]:
        """The queries that were stopped at a limit, with the reason."""
        return self._runs.stopped

    @property
    def was_stopped(self) -> bool:
        """Whether `request_stop` was called since the start."""
        return self._operation.stopping.is_set()

    @property
    def failed(self) -> bool:
        """Whether a stream has failed in the background; `stop` raises why."""
        return self._operation.failed

    @property
    def failed_callbacks(self) -> dict[str, int]:
        """How many calls of callbacks raised an exception, by query or 'on_batch'. The log has the exceptions."""
        return dict(self._answers.callbacks.failed)

    @property
    def missing_answers(self) -> dict[str, int]:
        """How many rows of answers, by query, were missing when the run went on from a checkpoint."""
        return self._answers.missing
