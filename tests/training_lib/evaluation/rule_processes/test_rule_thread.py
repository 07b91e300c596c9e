"""A rule's thread: answers in order, each from the one before; a rule that never answers holds nobody up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.patience import HANGS_SECONDS, wait_until
from trackside.contracts.errors import StorageUnavailableError
from trackside.evaluation.results.judging import Judgement
from trackside.evaluation.results.progress import RuleProgress
from trackside.evaluation.rule_processes import rule_thread
from trackside.evaluation.rule_processes.rule_thread import MOST_TASKS, JudgingTask, RuleThread


def counts(progress: RuleProgress) -> Judgement:
    return Judgement(replace(progress, judged=progress.judged + 1))


def concludes(progress: RuleProgress) -> Judgement:
    return Judgement(replace(progress, has_concluded=True))


def fails(progress: RuleProgress) -> Judgement:
    raise StorageUnavailableError("S3 is busy")


def judge(thread: RuleThread, step: int, how: Callable[[RuleProgress], Judgement] = counts) -> None:
    thread.submit(JudgingTask(step, step, how))


@pytest.fixture
def thread() -> RuleThread:
    return RuleThread("counts", RuleProgress(judged=10, judged_through=4), file=__file__)


def test_each_answer_goes_on_from_the_one_before(thread: RuleThread) -> None:
    for step in range(5, 8):
        judge(thread, step)
    assert thread.queued_through == 7
    assert thread.wait(HANGS_SECONDS)
    judgements, failure = thread.take()
    assert ([judgement.progress.judged for judgement in judgements], failure) == ([11, 12, 13], None)
    assert thread.take() == ([], None)
    judge(thread, 8)
    assert thread.wait(HANGS_SECONDS)
    assert [judgement.progress.judged for judgement in thread.take()[0]] == [14]


def test_an_idle_one_is_asked_through_what_was_judged_and_stuck_nowhere(thread: RuleThread) -> None:
    assert (thread.queued_through, thread.is_idle, thread.stuck, thread.free_slots) == (4, True, None, MOST_TASKS)
    assert thread.wait(0)
    assert thread.abandon()


def test_after_a_failure_nothing_is_asked_until_it_starts_over(thread: RuleThread) -> None:
    judge(thread, 5)
    judge(thread, 6, fails)
    judge(thread, 7)
    assert thread.wait(HANGS_SECONDS)
    judge(thread, 8)
    assert thread.is_idle
    judgements, failure = thread.take()
    assert len(judgements) == 1
    assert failure is not None
    assert (failure.step, str(failure.error)) == (6, "S3 is busy")
    thread.start_over(replace(judgements[0].progress, judged_through=5))
    assert (thread.queued_through, thread.take()) == (5, ([], None))
    judge(thread, 6)
    assert thread.wait(HANGS_SECONDS)
    assert [judgement.progress.judged for judgement in thread.take()[0]] == [12]


def test_after_the_last_word_nothing_is_asked(thread: RuleThread) -> None:
    judge(thread, 5, concludes)
    judge(thread, 6)
    assert thread.wait(HANGS_SECONDS)
    judge(thread, 7)
    assert thread.is_idle
    assert len(thread.take()[0]) == 1


def test_where_it_hangs_and_for_how_long_reading_left_out(thread: RuleThread) -> None:
    is_reading, let_go, goes_on, ends = (threading.Event() for _ in range(4))

    def reads_then_hangs(progress: RuleProgress) -> Judgement:
        with thread.reading:
            is_reading.set()
            let_go.wait(HANGS_SECONDS)
        goes_on.set()
        ends.wait(HANGS_SECONDS)
        return counts(progress)

    judge(thread, 5, reads_then_hangs)
    assert is_reading.wait(HANGS_SECONDS)
    before = thread.stuck
    assert not thread.wait(0.1)
    stuck = thread.stuck
    assert stuck is not None
    assert stuck.step == 5
    assert stuck == before, "the tenth of a second was spent in reading"
    let_go.set()
    assert goes_on.wait(HANGS_SECONDS)
    wait_until(lambda: (thread.stuck or stuck).seconds > stuck.seconds)
    ends.set()
    assert thread.wait(HANGS_SECONDS)
    assert thread.stuck is None


def test_a_loop_in_the_rules_own_file_is_ended() -> None:
    spins = threading.Event()

    def loops(progress: RuleProgress) -> Judgement:
        while True:
            spins.set()

    thread = RuleThread("loops", RuleProgress(), file=__file__)
    judge(thread, 0, loops)
    assert spins.wait(HANGS_SECONDS)
    wait_until(thread.abandon)
    assert thread.take() == ([], None)


def test_what_is_not_in_the_rules_own_file_is_left_alone() -> None:
    ends, began = threading.Event(), threading.Event()

    def waits(progress: RuleProgress) -> Judgement:
        began.set()
        assert ends.wait(HANGS_SECONDS)  # in the file of `threading`, with its lock
        return counts(progress)

    thread = RuleThread("waits", RuleProgress(), file=__file__)
    judge(thread, 0, waits)
    assert began.wait(HANGS_SECONDS)
    wait_until(lambda: not thread.abandon())
    ends.set()
    wait_until(thread.abandon)
    assert thread.take() == ([], None)  # nobody wants it any more


def test_a_thread_with_nothing_to_do_ends_and_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = RuleThread("rests", RuleProgress(judged=10))
    monkeypatch.setattr(rule_thread, "_IDLE_SECONDS", 0.01)
    for step in (5, 6):
        judge(thread, step)
        assert thread.wait(HANGS_SECONDS)
        wait_until(lambda: not any(one.name == "rule rests" for one in threading.enumerate()))
    assert [judgement.progress.judged for judgement in thread.take()[0]] == [11, 12]
