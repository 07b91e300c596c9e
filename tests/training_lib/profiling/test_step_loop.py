"""The loop of a training by its stacks: a wait for the next batch of whatever it loops over, and other work."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trackside.profiling.step_loop import StepLoop
from trackside.thread_stacks import Stack, frames_from, stack_of

Look = Callable[[], None]


class Probe:
    """Looks at the stack of the loop, from within what it calls."""

    def __init__(self) -> None:
        self.loop = StepLoop(is_user_file=lambda file: file == __file__)
        self.found: list[bool] = []

    def step(self) -> None:
        self.loop.note(frames_from(sys._getframe()))

    def look(self) -> None:
        self.found.append(self.loop.is_fetching(frames_from(sys._getframe().f_back)))


class Batches:
    """An iterator with a method of Python."""

    def __init__(self, look: Look) -> None:
        self.left, self.look = 3, look

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> int:
        self.left -= 1
        if not self.left:
            raise StopIteration
        self.look()
        return self.left


def generated(look: Look) -> Iterator[int]:
    for number in range(2):
        look()
        yield number


def over(batches: Iterable[Any], step: Look) -> None:
    for _ in batches:
        step()


def a_generator(probe: Probe) -> None:
    over(generated(probe.look), probe.step)


def an_iterator(probe: Probe) -> None:
    over(Batches(probe.look), probe.step)


def a_generator_in_an_enumeration(probe: Probe) -> None:
    for _number, _ in enumerate(generated(probe.look)):
        probe.step()


def a_generator_of_a_generator(probe: Probe) -> None:
    over((2 * number for number in generated(probe.look)), probe.step)


def epochs(probe: Probe) -> None:
    for _ in range(2):
        for _ in generated(probe.look):
            probe.step()


def next_of_an_iterator(probe: Probe) -> None:
    batches = generated(probe.look)
    for _ in range(2):
        next(batches)
        probe.step()


def a_trainer_within_a_generator(probe: Probe) -> None:
    def steps() -> Iterator[None]:
        for _ in generated(probe.look):
            probe.step()
            yield

    for _ in steps():
        pass


def a_map(probe: Probe) -> None:
    over(map(lambda _: probe.look(), range(2)), probe.step)  # noqa: C417 - the caller is no frame of Python


def work_between_steps(probe: Probe) -> None:
    for _ in range(2):
        probe.look()
        probe.step()


def a_loop_of_its_own_within_a_step(probe: Probe) -> None:
    for _ in range(2):
        for _ in generated(probe.look):  # such as over the parameters of a model
            pass
        probe.step()


def a_list_of_generated_numbers(probe: Probe) -> None:
    for _ in range(2):
        list(generated(probe.look))
        probe.step()


def a_function_that_loops(probe: Probe) -> None:
    def read() -> int:
        return sum(generated(probe.look))

    for _ in range(2):
        read()
        probe.step()


def an_evaluation(probe: Probe) -> None:
    def evaluate() -> None:
        for _ in generated(probe.look):
            pass

    for _ in range(2):
        probe.step()
        evaluate()


@pytest.mark.parametrize(
    ("train", "is_fetch"),
    [
        pytest.param(a_generator, True, id="a-generator"),
        pytest.param(an_iterator, True, id="an-iterator"),
        pytest.param(a_generator_in_an_enumeration, True, id="enumerate"),
        pytest.param(a_generator_of_a_generator, True, id="a-generator-of-a-generator"),
        pytest.param(epochs, True, id="epochs"),
        pytest.param(next_of_an_iterator, True, id="next"),
        pytest.param(a_trainer_within_a_generator, True, id="steps-that-are-generated"),
        pytest.param(a_map, True, id="a-map"),
        pytest.param(work_between_steps, False, id="work-between-steps"),
        pytest.param(a_loop_of_its_own_within_a_step, False, id="another-loop-within-a-step"),
        pytest.param(a_list_of_generated_numbers, False, id="a-list"),
        pytest.param(a_function_that_loops, False, id="a-function-that-loops"),
        pytest.param(an_evaluation, False, id="an-evaluation"),
    ],
)
def test_a_wait_of_the_loop_is_told_from_other_work(train: Callable[[Probe], None], is_fetch: bool) -> None:
    probe = Probe()
    train(probe)  # learns the loop
    probe.found.clear()
    train(probe)
    assert probe.found
    assert set(probe.found) == {is_fetch}


@pytest.mark.parametrize("is_fetch", [True, False], ids=["a-thread-that-reads-ahead", "a-queue-of-results"])
def test_a_wait_in_another_thread_s_queue(is_fetch: bool) -> None:
    """A wait in `Queue.get` is the loop's only if its `for` asks for it."""
    loop, waiting = StepLoop(is_user_file=lambda file: file == __file__), threading.Event()
    handed: queue.Queue[int] = queue.Queue()

    def ahead() -> Iterator[int]:
        while (batch := handed.get()) >= 0:
            yield batch

    def train() -> None:
        if is_fetch:
            for _ in ahead():
                loop.note(frames_from(sys._getframe()))
                waiting.set()
            return
        for _ in range(1):
            loop.note(frames_from(sys._getframe()))
            waiting.set()
            handed.get()

    thread = threading.Thread(target=train)
    thread.start()
    if is_fetch:
        handed.put(1)
    waiting.wait()
    found: Stack = []
    while not found or found[0].f_code.co_name not in {"get", "wait"}:
        found = stack_of(thread.ident or 0)
    answer = loop.is_fetching(found)
    handed.put(-1)
    thread.join()
    assert answer is is_fetch


def test_nothing_is_known_before_a_step() -> None:
    probe = Probe()
    over(generated(probe.look), lambda: None)
    assert set(probe.found) == {False}
    assert not probe.loop.is_fetching([])


@pytest.mark.parametrize(
    ("wait", "is_fetch"),
    [
        pytest.param("handed.get()", True, id="a-queue"),
        pytest.param("parts.get(1, lock).acquire()", False, id="a-lock"),
    ],
)
def test_a_wait_in_a_queue_that_is_not_written_in_python(wait: str, is_fetch: bool, tmp_path: Path) -> None:
    """`queue.SimpleQueue` has no frame of its own: the text of the call shows it."""
    script = tmp_path / "script.py"
    script.write_text(
        f"def train(step, handed, parts, lock):\n    for _ in range(1):\n        step()\n        {wait}\n"
    )
    names: dict[str, Any] = {}
    exec(compile(script.read_text(), str(script), "exec"), names)  # noqa: S102 - the test's own text
    loop, waiting, lock = StepLoop(is_user_file=lambda file: file == str(script)), threading.Event(), threading.Lock()
    handed: queue.SimpleQueue[int] = queue.SimpleQueue()

    def step() -> None:
        loop.note(frames_from(sys._getframe()))
        waiting.set()

    with lock:
        thread = threading.Thread(target=names["train"], args=(step, handed, {}, lock))
        thread.start()
        waiting.wait()
        found: Stack = []
        while not found or found[0].f_code.co_name != "train" or found[0].f_lineno != 4:
            found = stack_of(thread.ident or 0)
        answer = loop.is_fetching(found)
        handed.put(1)
    thread.join()
    assert answer == is_fetch
