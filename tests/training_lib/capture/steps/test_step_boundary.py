"""Where steps end, from a script of optimizer steps."""

from __future__ import annotations

import gc
import weakref

import pytest

from trackside.capture.steps.step_boundary import StepBoundary


class Optimizer:
    """Anything that can be weakly referenced."""


def steps_of(script: str) -> list[str]:
    """Plays a script such as "D G D G" with all named optimizers alive from the start; the steps that resulted."""
    boundary = StepBoundary()
    optimizers = {name: Optimizer() for name in sorted(set(script.split()))}
    for known_one in optimizers.values():
        boundary.created(known_one)
    steps: list[str] = []
    current: list[str] = []
    for name in script.split():
        if boundary.ends_before(optimizers[name]):
            steps.append("".join(current))
            current = []
        current.append(name)
        if boundary.ends_after(optimizers[name]):
            steps.append("".join(current))
            current = []
    if boundary.is_open:
        steps.append("".join(current) + "?")
    return steps


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("A A A", ["A", "A", "A"], id="one-optimizer"),
        pytest.param("D G D G D G", ["DG", "DG", "DG"], id="gan"),
        pytest.param("A B C A B C", ["ABC", "ABC"], id="one-optimizer-per-layer"),
        pytest.param("A B C B C A", ["ABC", "BCA"], id="any-order"),
        pytest.param("D D D G D D D G", ["D", "D", "D", "GD", "D", "D", "G?"], id="critic-steps"),
        pytest.param("D G D", ["DG", "D?"], id="ends-in-the-middle"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_steps(script: str, expected: list[str]) -> None:
    assert steps_of(script) == expected


def test_an_optimizer_that_never_steps_is_not_waited_for() -> None:
    boundary = StepBoundary()
    used, unused = Optimizer(), Optimizer()
    boundary.created(used)
    boundary.created(unused)
    assert not boundary.ends_after(used)
    assert boundary.ends_before(used)  # the first step ends late, when the second begins
    assert boundary.ends_after(used)
    assert not boundary.ends_before(used)
    assert boundary.ends_after(used)


def test_an_optimizer_that_is_gone_is_not_waited_for() -> None:
    boundary = StepBoundary()
    first, second = Optimizer(), Optimizer()
    boundary.created(first)
    boundary.created(second)
    del first
    gc.collect()
    assert boundary.ends_after(second)


def test_an_optimizer_never_announced_still_steps() -> None:
    boundary = StepBoundary()
    assert boundary.ends_after(Optimizer())


def test_a_copy_that_nobody_announced_is_waited_for_once_it_has_stepped() -> None:
    boundary = StepBoundary()
    told, copy = Optimizer(), Optimizer()
    boundary.created(told)
    assert boundary.ends_after(told)
    assert not boundary.ends_before(copy)
    assert not boundary.ends_after(copy)
    assert not boundary.ends_before(told)
    assert boundary.ends_after(told)


def test_an_optimizer_replaced_at_every_step_ends_the_step_and_is_let_go() -> None:
    boundary = StepBoundary()
    idle = Optimizer()
    boundary.created(idle)
    ends = []
    for _ in range(4):
        optimizer = Optimizer()
        boundary.created(optimizer)
        ends.append(boundary.ends_before(optimizer))
        boundary.ends_after(optimizer)
        reference = weakref.ref(optimizer)
        del optimizer
        gc.collect()
        assert reference() is None
    assert ends[1]
    assert idle


def played(script: str, *, known: str = "") -> list[str]:
    """As `steps_of`; `a` is a step of A that was left out, `!` the begin of an evaluation. `known`: who has stepped."""
    boundary = StepBoundary()
    optimizers = {name: Optimizer() for name in sorted({*script.upper(), *known} - {" ", "!"})}
    for known_one in optimizers.values():
        boundary.created(known_one)
    steps: list[str] = []
    current = ""
    for event in f"{known}{script}".replace(" ", ""):
        optimizer = optimizers.get(event.upper())
        if event == "!":
            ended = boundary.ends_with_validation()
        elif event.islower():
            ended = boundary.skipped(optimizer)
        else:
            if boundary.ends_before(optimizer):
                steps.append(current)
                current = ""
            current += event
            ended = boundary.ends_after(optimizer)
        if ended:
            steps.append(current)
            current = ""
    return steps + ([f"{current}?"] if boundary.is_open else [])


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("A a A", ["A", "A"], id="one-optimizer-makes-no-step-of-it"),
        pytest.param("D G D g D G", ["DG", "D", "DG"], id="the-second-is-skipped"),
        pytest.param("D G d G D G", ["DG", "G", "DG"], id="the-first-is-skipped"),
        pytest.param("D G d g D G", ["DG", "DG"], id="both-are-skipped"),
        pytest.param("d g d g d G D G", ["G", "DG"], id="skipped-from-the-start"),
        pytest.param("A B C a b C A B C", ["ABC", "C", "ABC"], id="two-of-three-are-skipped"),
        pytest.param("A B C A b c A B C", ["ABC", "A", "ABC"], id="the-last-two-of-three-are-skipped"),
        pytest.param("D G D g d G D G", ["DG", "D", "G", "DG"], id="in-turns"),
    ],
)
def test_steps_that_were_left_out(script: str, expected: list[str]) -> None:
    assert played(script) == expected


@pytest.mark.parametrize(
    ("script", "known", "expected"),
    [
        pytest.param("A ! A", "B", ["BA", "A?"], id="one-that-has-stepped-before-is-waited-for"),
        pytest.param("! A B", "", ["AB"], id="nothing-is-open"),
        pytest.param("A B ! A B", "", ["AB", "AB"], id="between-steps"),
        pytest.param("A B A ! B", "", ["AB", "AB"], id="within-a-step"),
    ],
)
def test_an_evaluation_ends_no_step_that_is_under_way(script: str, known: str, expected: list[str]) -> None:
    assert played(script, known=known) == expected


def test_an_evaluation_ends_a_step_that_waits_for_one_that_never_stepped() -> None:
    boundary = StepBoundary()
    used, unused = Optimizer(), Optimizer()
    boundary.created(used)
    boundary.created(unused)
    assert not boundary.ends_with_validation()
    assert not boundary.ends_after(used)
    assert boundary.ends_with_validation()
    assert not boundary.is_open
    assert not boundary.ends_before(used)
    assert boundary.ends_after(used)
    assert unused
