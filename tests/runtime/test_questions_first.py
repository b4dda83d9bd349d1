"""A batch gives way to questions, and ends all the same."""

from __future__ import annotations

import sys
import threading
import time

from mullion.runtime.questions_first import SHARE, TURNS, QuestionsFirst


def test_at_rest_nothing_is_waited_for() -> None:
    give_way = QuestionsFirst().batch()
    give_way()
    assert give_way.waited == 0


def test_a_batch_waits_for_a_share_of_its_time_at_most() -> None:
    """A question that lasts for ever: after 1.2 seconds of work, a tenth of a second is waited for."""
    now = [0.0]
    questions = QuestionsFirst(lambda: now[0])
    give_way = questions.batch()
    with questions.asking():
        give_way()
        assert give_way.waited == 0
        now[0] = 1.2
        waits: list[float] = []
        questions.wait = lambda seconds: waits.append(seconds) or seconds  # type: ignore[func-returns-value,method-assign]
        give_way()
        now[0] += give_way.waited
        give_way()
    assert len(waits) == 1 and abs(waits[0] - 1.2 * SHARE) < 1e-9


def test_it_goes_on_when_the_question_is_answered() -> None:
    questions = QuestionsFirst()
    give_way = questions.batch()
    give_way._began -= 60
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
    give_way()
    assert 0.04 < time.perf_counter() - began < 4
    thread.join()


def test_threads_take_turns_as_before_afterwards() -> None:
    before, questions = sys.getswitchinterval(), QuestionsFirst()
    with questions.asking():
        assert sys.getswitchinterval() <= TURNS * 1.01
        with questions.asking():
            pass
        assert sys.getswitchinterval() <= TURNS * 1.01
    assert sys.getswitchinterval() == before
