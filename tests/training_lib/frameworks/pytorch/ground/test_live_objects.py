"""What is found among all live objects, and when it is looked for again."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from trackside.frameworks.pytorch.ground.live_objects import instances, look_again, of_types, one_look, types


class Inner(torch.nn.Linear):
    """A class of the user's."""


class Pretender:
    """Says that it is a module, as lazy proxies do."""

    woken = 0

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override] # so that isinstance would ask it
        Pretender.woken += 1
        return torch.nn.Module


def test_instances_are_found_by_their_type_and_nobody_is_woken() -> None:
    pretender, module = Pretender(), Inner(2, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    found = [*map(id, instances(torch.nn.Module)), *map(id, instances(torch.optim.Optimizer))]
    assert {id(module), id(optimizer)} <= set(found)
    assert id(pretender) not in found
    assert Pretender.woken == 0
    assert id(module) not in set(map(id, instances(torch.optim.Optimizer)))


def test_one_look_is_made_once_and_forgotten() -> None:
    with one_look():
        before = len(instances(Inner))
        made = Inner(2, 2)
        assert len(instances(Inner)) == before
        look_again()
        assert any(module is made for module in instances(Inner))
    later = Inner(2, 2)
    assert any(module is later for module in instances(Inner))


def test_a_look_keeps_nothing_alive() -> None:
    count = len(instances(Inner))
    module = Inner(2, 2)
    with one_look():
        assert len(instances(Inner)) == count + 1
    del module
    assert len(instances(Inner)) == count


@pytest.fixture
def other_thread_errors() -> Iterator[list[SystemError]]:
    """Make tuples that grow in another thread, which takes turns as often as Python can. Return the errors there."""
    errors: list[SystemError] = []
    is_over = threading.Event()

    def make_tuples() -> None:
        while not is_over.is_set():
            try:
                tuple(number for number in range(40))
            except SystemError as error:
                errors.append(error)

    thread, interval = threading.Thread(target=make_tuples), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    yield errors
    is_over.set()
    thread.join()
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("look", [lambda: instances(torch.nn.Module), lambda: of_types({Inner}), types])
def test_a_look_leaves_alone_what_other_threads_are_making(
    look: Callable[[], object], other_thread_errors: list[SystemError]
) -> None:
    for _ in range(8):
        look()
    assert other_thread_errors == []
