"""Rules judge steps of which nothing was saved, by the statistics that were recorded of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import (
    END_MARKER_KEY,
    STATISTICS,
    TENSORS,
    WATERMARKS,
    RunLocation,
    parse_index_key,
)
from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict
from trackside.evaluation.evaluator import Evaluator, evaluate
from trackside.evaluation.results.progress import ProgressFile
from trackside.evaluation.results.summary import Summary
from trackside.records.watermark import Watermark
from trackside.rules.catalogue import ConfiguredRule, build_rules
from trackside.rules.rule import Rule
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors, write_watermark
from trackside.trial.steps.watermarks import GONE_SECONDS
from trackside.trial.trial import Trial, open_trial
from trackside.trial.window import Window

EARLY, LATE, LOSS = "gradient/Net_0.weight", "gradient/Net_9.weight", "Loss_output_0"
STARTED_MS = 1_700_000_000_000
VANISHING = RuleRequest((RuleConfiguration("vanishing-gradient"),))

Row = Mapping[tuple[str, str], float]


def gradients(early: float) -> Row:
    return {(EARLY, "abs_mean"): early, (LATE, "abs_mean"): 0.02, (LOSS, "mean"): 1.0}


def cheap() -> Row:
    """A row of the tier that is written at every step."""
    return {(EARLY, "l2"): 1.0, (LATE, "l2"): 1.0, (LOSS, "mean"): 1.0}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class World:
    """A run that grows: its stores, the logs of its workers, an evaluator, and a clock that only we move."""

    def __init__(
        self,
        rules: Sequence[ConfiguredRule] = (),
        *,
        workers: Sequence[str] = ("worker_0",),
        has_marks: bool = True,
    ) -> None:
        self.tensors, self.clock, self.marks = MemoryStore(), Clock(), MemoryStore()
        self.has_marks, self._sequence = has_marks, itertools.count()
        self.statistics: Store = MemoryStore()
        write_collections(self.tensors, workers=tuple(workers))
        self.logs = {worker: a_log(self.statistics, worker) for worker in workers}
        self.rules = rules or build_rules(VANISHING)
        self.progress = ProgressFile(MemoryStore())
        for worker in workers:
            self.mark(-1, worker=worker)
        self.evaluator = self.an_evaluator()

    def mark(self, through: int, *, worker: str = "worker_0", is_final: bool = False) -> None:
        """The worker says that everything of this step and of those before it is stored."""
        if self.has_marks:
            saved = (parse_index_key(key) for key in self.tensors.list("index/"))
            mark = Watermark(
                worker,
                len(self.logs),
                STARTED_MS,
                sequence=next(self._sequence),
                through=through,
                is_final=is_final,
                saved_steps=sum(found is not None and found[1] == worker for found in saved),
                segments=tuple(self.logs[worker].newest_segments),
            )
            write_watermark(self.marks, mark)

    def an_evaluator(self) -> Evaluator:
        trial = Trial(self.tensors, self.statistics, self.marks, clock=self.clock)
        return Evaluator(trial, self.rules, [], self.progress, run="run", clock=self.clock)

    def record(self, rows: Mapping[int, Row], *, worker: str = "worker_0", mode: str = "TRAIN") -> None:
        write_rows(self.logs[worker], rows, mode=mode)

    def judged(self) -> int:
        """Sweeps; how many steps its only rule has judged."""
        self.evaluator.poll()
        (judged,) = self.evaluator.summary().judged.values()
        return judged

    def last_step(self) -> int:
        self.evaluator.poll()
        return self.evaluator.summary().last_step

    @property
    def issues(self) -> tuple[Verdict, ...]:
        return self.evaluator.summary().issues


def a_log(store: Store, worker: str, *, started_ms: int = STARTED_MS) -> StatisticsLog:
    return StatisticsLog(store, worker=worker, started_ms=started_ms)


def write_rows(log: StatisticsLog, rows: Mapping[int, Row], *, mode: str = "TRAIN") -> None:
    for step, row in rows.items():
        log.record(row, step=step, mode=mode, mode_step=step, wall_time=1.7e9 + step)
    log.flush()


def all_of(row: Row, steps: Iterable[int]) -> dict[int, Row]:
    return dict.fromkeys(steps, row)


def judge_finished(
    rows: Mapping[int, Row], *, saved: Iterable[int] = (), request: RuleRequest = VANISHING, mode: str = "TRAIN"
) -> Summary:
    stores = {f"/run/{name}": MemoryStore() for name in (TENSORS, STATISTICS, WATERMARKS, "rule-output")}
    tensors = stores[f"/run/{TENSORS}"]
    write_collections(tensors)
    for step in saved:
        write_tensors(tensors, step, {LOSS: 1.0})
    end_run(tensors)
    write_rows(a_log(stores[f"/run/{STATISTICS}"], "worker_0"), rows, mode=mode)
    return evaluate(
        RunLocation("/run"),
        request,
        [],
        poll_seconds=1,
        clock=lambda: 0.0,
        sleep=lambda _: pytest.fail("All of it is there at the first look."),
        should_stop=lambda: False,
        stores={**stores, "/run": MemoryStore()}.__getitem__,
    )


@pytest.mark.parametrize(
    ("rows", "saved", "fires_at"),
    [
        pytest.param(all_of(gradients(1e-12), range(10)), [], 2, id="every-step"),
        pytest.param(all_of(gradients(1e-12), range(10)), [0, 5], 2, id="beside-saved-losses"),
        pytest.param(all_of(gradients(1e-12), [0, 7, 50]), [0, 10, 20], 50, id="thinned"),
        pytest.param(
            {s: gradients(1e-12) if s % 4 == 0 else cheap() for s in range(20)}, [], 8, id="between-rows-that-are-cheap"
        ),
        pytest.param(
            {**all_of(gradients(0.01), range(5)), **all_of(gradients(1e-12), range(5, 9))}, [], 7, id="not-at-first"
        ),
        pytest.param(all_of(gradients(0.01), range(10)), [], None, id="sound"),
        pytest.param(all_of(gradients(0.01), range(10)), [0, 5], None, id="sound-beside-saved-losses"),
        pytest.param({s: gradients(1e-12 if s % 3 else 0.01) for s in range(20)}, [], None, id="never-three-in-a-row"),
        pytest.param(
            {s: gradients(1e-12 if s % 3 else 0.01) if s % 2 else cheap() for s in range(20)},
            [],
            None,
            id="never-three-in-a-row-between-rows-that-are-cheap",
        ),
        pytest.param(all_of(cheap(), range(20)), [0, 10], None, id="statistics-that-the-rule-does-not-ask-for"),
    ],
)
def test_a_rule_fires_from_statistics_alone(
    rows: Mapping[int, Row], saved: Sequence[int], fires_at: int | None
) -> None:
    summary = judge_finished(rows, saved=saved)
    assert [issue.step for issue in summary.issues] == ([] if fires_at is None else [fires_at])
    if fires_at is not None:
        assert [f.subject for f in summary.issues[0].findings] == [EARLY]


def test_what_could_not_be_judged_is_not_called_clean() -> None:
    (sound,) = judge_finished(all_of(gradients(0.01), range(10))).verdicts
    assert (sound.outcome, judge_finished(all_of(gradients(0.01), range(10))).judged) == (
        Outcome.CLEAN,
        {"vanishing-gradient": 10},
    )
    (unknown,) = judge_finished(all_of(cheap(), range(10))).verdicts
    assert unknown.outcome is Outcome.NOT_EVALUATED
    assert "saved no gradients" in unknown.message


def test_the_mode_is_that_of_the_rows() -> None:
    """A loss that is no number in evaluation is found there, and the training's columns know nothing of it."""
    request = RuleRequest((RuleConfiguration("exploding-tensor"),))
    rows = {5: {(LOSS, "nonfinite_count"): 1.0, (LOSS, "nan_count"): 1.0, (LOSS, "abs_max"): 1.0}}
    assert [issue.step for issue in judge_finished(rows, mode="EVAL", request=request).issues] == [5]


@pytest.mark.parametrize("at_disk", [False, True], ids=["objects", "a-file-that-grows"])
def test_a_step_is_judged_once_the_watermark_has_passed_it(tmp_path: Path, at_disk: bool) -> None:
    world = World()
    if at_disk:
        world.statistics = LocalStore(tmp_path)
        world.logs = {"worker_0": a_log(world.statistics, "worker_0")}
        world.evaluator = world.an_evaluator()
    write_tensors(world.tensors, 0, {LOSS: 1.0})
    world.record(all_of(gradients(0.01), range(3)))
    assert world.judged() == 0  # nobody has said that this is all
    world.mark(1)
    assert world.judged() == 2
    world.mark(2)
    assert world.judged() == 3
    world.record(all_of(gradients(1e-12), range(3, 6)))
    world.mark(4)
    assert world.judged() == 5
    assert not world.issues
    world.mark(5)
    world.evaluator.poll()
    assert [issue.step for issue in world.issues] == [5]


@pytest.mark.parametrize("at_disk", [False, True], ids=["objects", "a-file-that-grows"])
def test_a_run_without_watermarks_is_judged_as_far_as_it_was_there_at_the_last_look(
    tmp_path: Path, at_disk: bool
) -> None:
    world = World(has_marks=False)
    if at_disk:
        world.statistics = LocalStore(tmp_path)
        world.logs = {"worker_0": a_log(world.statistics, "worker_0")}
        world.evaluator = world.an_evaluator()
    write_tensors(world.tensors, 0, {LOSS: 1.0})
    world.record(all_of(gradients(0.01), range(3)))
    assert world.judged() == 0
    world.record(all_of(gradients(1e-12), range(3, 5)))
    assert world.judged() == 3
    world.record({5: gradients(1e-12)})
    assert world.judged() == 5
    assert not world.issues
    assert world.judged() == 6
    assert [issue.step for issue in world.issues] == [5]


@pytest.mark.parametrize("has_marks", [True, False])
def test_a_run_that_crashed_is_judged_to_its_last_row(has_marks: bool) -> None:
    world = World(has_marks=has_marks)
    world.record({**all_of(gradients(0.01), range(3)), **all_of(gradients(1e-12), range(3, 5))})
    write_tensors(world.tensors, 0, {LOSS: 1.0})
    world.mark(3)
    world.evaluator.poll()
    world.record({5: gradients(1e-12)})
    assert not world.issues
    end_run(world.tensors)  # as whoever notices the crash does
    world.evaluator.poll()
    assert [issue.step for issue in world.issues] == [5]
    assert world.evaluator.is_done


@pytest.mark.parametrize("has_marks", [True, False])
@pytest.mark.parametrize(("early", "fires"), [pytest.param(1e-12, True, id="fires"), pytest.param(0.01, False)])
def test_a_run_that_saves_nothing_is_judged_while_it_grows(has_marks: bool, early: float, fires: bool) -> None:
    world = World(has_marks=has_marks)
    world.record(all_of(gradients(early), range(3)))
    assert world.last_step() == -1
    world.mark(2)
    assert world.last_step() == 2
    assert [issue.step for issue in world.issues] == ([2] if fires else [])


@pytest.mark.parametrize("has_marks", [True, False])
def test_a_restarted_evaluator_judges_no_step_twice(has_marks: bool) -> None:
    world = World(has_marks=has_marks)
    write_tensors(world.tensors, 0, {LOSS: 1.0})
    world.record(all_of(gradients(1e-12), range(2)))
    world.mark(1)
    world.evaluator.poll()
    assert world.judged() == 2
    world.evaluator = world.an_evaluator()
    world.evaluator.poll()
    assert world.judged() == 2
    world.record({2: gradients(1e-12)})
    world.mark(2)
    world.evaluator.poll()
    world.evaluator.poll()
    assert [issue.step for issue in world.issues] == [2]


def two_workers(*, has_marks: bool = True) -> World:
    world = World(workers=("worker_0", "worker_1"), has_marks=has_marks)
    for worker in world.logs:
        write_tensors(world.tensors, 0, {LOSS: 1.0}, worker=worker)
    return world


BOTH = [pytest.param(1e-12, True, id="one-worker-is-at-fault"), pytest.param(0.01, False, id="none-is")]


@pytest.mark.parametrize(("of_worker_1", "fires"), BOTH)
def test_a_step_is_judged_once_the_watermarks_of_all_workers_have_passed_it(of_worker_1: float, fires: bool) -> None:
    world = two_workers()
    world.record(all_of(gradients(0.01), range(10)))
    world.mark(9)
    assert world.last_step() == -1
    world.record(all_of(gradients(of_worker_1), range(4)), worker="worker_1")
    assert world.last_step() == -1  # more of it may come
    world.mark(3, worker="worker_1")
    assert world.last_step() == 3
    assert [(i.step, [f.worker for f in i.findings]) for i in world.issues] == ([(2, ["worker_1"])] if fires else [])


@pytest.mark.parametrize(("of_worker_1", "fires"), BOTH)
def test_without_watermarks_a_step_is_judged_once_all_workers_had_recorded_it_at_the_last_look(
    of_worker_1: float, fires: bool
) -> None:
    world = two_workers(has_marks=False)
    for worker in world.logs:
        world.record(all_of(gradients(0.01), range(1)), worker=worker)
    world.record(all_of(gradients(0.01), range(1, 10)))
    world.evaluator.poll()
    assert world.last_step() == 0
    world.record(all_of(gradients(of_worker_1), range(1, 5)), worker="worker_1")
    assert world.last_step() == 0
    assert world.last_step() == 4
    assert [(i.step, [f.worker for f in i.findings]) for i in world.issues] == ([(3, ["worker_1"])] if fires else [])


@pytest.mark.parametrize("has_begun", [True, False], ids=["fell-silent", "never-came"])
def test_a_silent_worker_is_waited_for_until_it_is_gone(has_begun: bool) -> None:
    world = two_workers()
    if not has_begun:
        world.marks.delete("worker_1.json")
    world.record(all_of(gradients(0.01), range(10)))
    world.mark(9)
    assert world.last_step() == -1
    world.clock.now += GONE_SECONDS - 1
    world.mark(9)
    assert world.last_step() == -1
    world.clock.now += 1
    assert world.last_step() == 9
    world.record(all_of(gradients(1e-12), range(10, 13)), worker="worker_1")  # here it is after all
    world.record(all_of(gradients(0.01), range(10, 13)))
    for worker in world.logs:
        world.mark(12, worker=worker)
    world.evaluator.poll()
    issue = world.issues[0]
    assert (issue.step, [(f.worker, f.subject) for f in issue.findings]) == (12, [("worker_1", EARLY)])


def test_a_worker_that_gives_a_sign_of_life_is_waited_for_however_long_it_takes() -> None:
    world = two_workers()
    world.record(all_of(gradients(0.01), range(10)))
    world.mark(9)
    for _ in range(10):
        assert world.last_step() == -1
        world.clock.now += GONE_SECONDS - 1
        world.mark(-1, worker="worker_1")
    assert world.last_step() == -1


def test_a_worker_that_has_stored_its_last_is_not_waited_for() -> None:
    world = two_workers()
    world.record(all_of(gradients(0.01), range(10)))
    world.record(all_of(gradients(0.01), range(5)), worker="worker_1")
    world.mark(4, worker="worker_1", is_final=True)
    world.mark(7)
    assert world.last_step() == 7
    world.mark(9)
    assert world.last_step() == 9


def test_a_run_in_which_nothing_happens_is_no_run_whose_workers_are_gone() -> None:
    """Nobody overtakes a worker that has paused with the others."""
    world = two_workers()
    for worker in world.logs:
        world.record(all_of(gradients(0.01), range(5)), worker=worker)
        world.mark(4, worker=worker)
    assert world.last_step() == 4
    world.clock.now += 10 * GONE_SECONDS
    assert world.last_step() == 4
    world.record(all_of(gradients(0.01), range(5, 8)))
    world.mark(7)
    world.record(all_of(gradients(0.01), range(5, 6)), worker="worker_1")
    world.mark(5, worker="worker_1")
    assert world.last_step() == 5


class Shown(Rule):
    """Remembers what it was shown."""

    rule_id = "shown"
    watches = ("gradients", "losses")
    save_interval = 1
    severity = Severity.WARNING
    since = "0"
    what_to_do = ()

    def __init__(self) -> None:
        object.__setattr__(self, "steps", [])

    def check(self, window: Window) -> Iterable[Finding]:
        self.steps.append(window.step)
        for name in (*window.tensors("gradients"), *window.tensors("losses")):
            window.statistic(name, "mean")
            window.statistic(name, "abs_mean")
        return ()

    steps: list[int]


class ShownEveryStep(Shown):
    """As a rule of smdebug, which knows of saved tensors only."""

    rule_id = "shown-every-step"
    judges_every_step = True


class ReadsWholeTensors(Shown):
    """Cannot do with statistics."""

    rule_id = "reads-whole-tensors"

    def check(self, window: Window) -> Iterable[Finding]:
        for name in window.tensors("losses"):
            window.value(name, worker="worker_0")
        self.steps.append(window.step)
        return ()


def a_world_of(rule: Rule, *, workers: Sequence[str] = ("worker_0",)) -> World:
    return World([ConfiguredRule(RuleConfiguration(rule.rule_id), rule)], workers=workers)


def test_saved_and_recorded_steps_come_in_one_order() -> None:
    rule = Shown()
    world = a_world_of(rule)
    for step in (0, 10):
        write_tensors(world.tensors, step, {LOSS: 1.0})
    world.record(all_of(gradients(0.01), range(8)))
    world.mark(7)
    world.evaluator.poll()
    assert rule.steps == [*range(8)]
    world.record(all_of(gradients(0.01), range(8, 23)))
    world.mark(19)  # step 20 is still to be saved
    world.evaluator.poll()
    assert rule.steps == [*range(20)]
    write_tensors(world.tensors, 20, {LOSS: 1.0})
    write_tensors(world.tensors, 30, {LOSS: 1.0})
    world.mark(22)
    world.evaluator.poll()
    assert rule.steps == [*range(23)]
    world.mark(40)  # nothing was recorded of steps 23 to 40
    world.evaluator.poll()
    assert rule.steps == [*range(23), 30]


def test_saved_steps_of_an_old_run_do_not_wait_where_nothing_is_recorded() -> None:
    rule = Shown()
    world = World([ConfiguredRule(RuleConfiguration(rule.rule_id), rule)], has_marks=False)
    for step in (0, 10, 20):
        write_tensors(world.tensors, step, {LOSS: 1.0})
        world.evaluator.poll()
        assert rule.steps[-1] == step


def test_a_rule_that_must_see_every_step_sees_the_saved_ones() -> None:
    rule = ShownEveryStep()
    world = a_world_of(rule)
    for step in (0, 4):
        write_tensors(world.tensors, step, {LOSS: 1.0})
    world.record(all_of(gradients(0.01), range(8)))
    end_run(world.tensors)
    assert world.judged() == 2
    assert rule.steps == [0, 4]


def test_a_rule_that_needs_whole_tensors_judges_where_there_are_some() -> None:
    rule = ReadsWholeTensors()
    world = a_world_of(rule)
    for step in (0, 4):
        write_tensors(world.tensors, step, {LOSS: 1.0})
    world.record(all_of(gradients(0.01), range(8)))
    end_run(world.tensors)
    assert world.judged() == 2
    assert rule.steps == [0, 4]
    assert world.evaluator.summary().crashed == ()


def test_the_trial_says_what_there_is() -> None:
    world = World()
    for step in (0, 4):
        write_tensors(world.tensors, step, {LOSS: 1.0}, mode="EVAL")
    world.record(all_of(gradients(0.01), range(3)))
    end_run(world.tensors)
    trial = Trial(world.tensors, world.statistics)
    trial.refresh()
    assert trial.new_complete_steps(-1) == [0, 1, 2, 4]
    assert trial.new_complete_steps(2) == [4]
    assert list(trial.new_saved_steps(-1)) == list(trial.steps()) == [0, 4]
    assert [trial.mode_of(step) for step in (0, 1, 4)] == ["EVAL", "TRAIN", "EVAL"]
    assert [sorted(trial.parts.steps.collections_at(step)) for step in (0, 1, 3, 4)] == [
        ["gradients", "losses"],
        ["gradients", "losses"],
        [],
        ["losses"],
    ]
    assert [trial.parts.steps.is_saved(step) for step in (0, 1)] == [True, False]
    assert [*trial.follow()] == [0, 4]


def test_a_store_of_a_run_that_has_nothing_but_statistics() -> None:
    tensors, statistics, run = MemoryStore(), MemoryStore(), MemoryStore()
    write_rows(a_log(statistics, "worker_0"), all_of(gradients(0.01), range(3)))
    for key in statistics.list():
        run.put(f"{STATISTICS}/{key}", statistics.get(key))
    end_run(tensors)
    run.put(f"{TENSORS}/{END_MARKER_KEY}", tensors.get(END_MARKER_KEY))
    trial = open_trial(run)
    assert trial.tensor(EARLY).statistic("abs_mean").steps.tolist() == [0, 1, 2]
    assert trial.workers == ("worker_0",)
    assert [c.steps.tolist() for c in trial.tensor(EARLY, worker="worker_0").columns("abs_mean")] == [[0, 1, 2]]
