"""A batch gives way to questions, and ends all the same."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import pytest

from mullion import questions_first
from mullion.language.parse import parse_query
from mullion.questions_first import LEAST_SAVED, MOST_SAVED, SHARE, TURNS, QuestionsFirst
from mullion.runtime.asking import Question, QuestionAnswer
from without_spark import local_engine


class Waited:
    """Questions that last for ever, on a clock of the test: what a batch waits, it waits in full."""

    def __init__(self) -> None:
        self.now, self.waits = 0.0, list[float]()
        self.questions = QuestionsFirst(lambda: self.now)
        self.questions._changed.wait_for = self._wait  # type: ignore[assignment,method-assign]

    def _wait(self, until: object, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now += seconds
        return False

    def work(self, seconds: float) -> None:
        """By another thread than the one that asks."""
        self.now += seconds
        thread = threading.Thread(target=self.questions.give_way)
        thread.start()
        thread.join()


def test_at_rest_nothing_is_waited_for() -> None:
    waited = Waited()
    waited.work(60.0)
    assert not waited.waits


def test_a_batch_waits_for_a_share_of_the_time_at_most() -> None:
    waited = Waited()
    with waited.questions.asking():
        for _ in range(500):
            waited.work(0.01)
    assert waited.waits[0] == MOST_SAVED and min(waited.waits) >= LEAST_SAVED
    assert SHARE * 5 * 0.99 < sum(waited.waits) <= MOST_SAVED + SHARE * 5 + 1e-9


def test_one_who_asks_does_not_wait_for_itself() -> None:
    waited = Waited()
    with waited.questions.asking():
        with waited.questions.asking():
            pass
        waited.questions.give_way()
    assert not waited.waits


def test_it_goes_on_when_the_question_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions_first, "MOST_SAVED", 4.0)
    questions = QuestionsFirst()
    asked, answered = threading.Event(), threading.Event()

    def ask() -> None:
        with questions.asking(), questions.asking():
            asked.set()
            answered.wait()

    thread = threading.Thread(target=ask)
    thread.start()
    asked.wait()
    threading.Timer(0.05, answered.set).start()
    began = time.perf_counter()
    questions.give_way()
    assert 0.04 < time.perf_counter() - began < 3.9
    thread.join()


def test_batches_give_way_to_a_question_that_was_parsed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question in a script is parsed with it."""
    turns: list[float] = []

    def answer(question: Question, *args: Any) -> QuestionAnswer:
        turns.append(sys.getswitchinterval())
        return original(question, *args)

    original = Question.answer
    monkeypatch.setattr(Question, "answer", answer)
    stream = "CREATE STREAM s (ts TIMESTAMP) USING json OPTIONS (path 'nowhere') TIMESTAMP BY ts KEEP 9 ROWS"
    text = "SELECT count(*) AS n FROM s [ROWS 3]"
    with local_engine(f"{stream}; CREATE QUERY q AS {text}") as engine:
        engine.deliver("s", [{"ts": 1}], 0)
        engine.ask(text)
        engine.answer(parse_query(text))
    assert len(turns) == 2 and max(turns) <= TURNS * 1.01 < sys.getswitchinterval()


def test_threads_take_turns_as_before_afterwards() -> None:
    before, questions = sys.getswitchinterval(), QuestionsFirst()
    with questions.asking():
        assert sys.getswitchinterval() <= TURNS * 1.01
        with questions.asking():
            pass
        assert sys.getswitchinterval() <= TURNS * 1.01
    assert sys.getswitchinterval() == before
