"""Whether weights have changed since a pass, on a device of which a read is a wait: here the host plays it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from trackside.frameworks.pytorch.optimizers.hand_looks import AGREED, Look, Rhythm
from trackside.frameworks.pytorch.saving.device_copies import DeviceCopies


class Near:
    """A link whose values come when they are asked for the second time."""

    def memory(self, size: int, device: torch.device) -> None:
        return None

    def fetch(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Late]:
        host = torch.empty_like(tensor)
        return host, Late(tensor.clone(), host)

    def fetch_now(self, tensor: torch.Tensor) -> torch.Tensor:
        raise AssertionError("training waits")

    def send(self, near: torch.Tensor, host: torch.Tensor) -> Late:
        return Late(near.clone(), host)


class Late:
    def __init__(self, value: torch.Tensor, host: torch.Tensor) -> None:
        self.value, self.host, self.asked = value, host, 0

    def is_here(self) -> bool:
        self.asked += 1
        if self.asked > 1:
            self.host.copy_(self.value)
        return self.asked > 1

    def wait(self) -> None:
        raise AssertionError("training waits")


def data(weight: torch.Tensor) -> None:
    weight.data -= 0.1


def no_grad(weight: torch.Tensor) -> None:
    with torch.no_grad():
        weight.sub_(0.1)


def replaced(weight: torch.Tensor) -> None:
    weight.data = weight.data - 0.1


def nothing(weight: torch.Tensor) -> None:
    pass


class CountedLook(Look):
    """A look that counts the times that a device would be waited for."""

    waits = 0

    def has_changed(self) -> bool:
        CountedLook.waits += self.is_late
        return super().has_changed()


Update = Callable[[torch.Tensor], object]


def answers(updates: Sequence[Update], *, is_late: bool = True) -> tuple[list[bool], int]:
    """Return whether a step was seen after each pass, and how often the device was waited for."""
    weight = torch.nn.Parameter(torch.ones(20))
    rhythm = Rhythm(DeviceCopies(Near(), takes=lambda _: True))  # type: ignore[arg-type] # without memory for slabs
    look, found, CountedLook.waits = None, [], 0
    for update in updates:
        look = look or CountedLook([weight], is_late=lambda _: is_late)
        update(weight)
        found.append(rhythm.has_stepped(look))
        look = None if found[-1] else look
    return found, CountedLook.waits


@pytest.mark.parametrize(
    ("updates", "waits"),
    [
        pytest.param([no_grad] * 30, 0, id="counted"),
        pytest.param([replaced] * 30, 0, id="other-memory"),
        pytest.param([data] * 30, AGREED, id="uncounted"),
        pytest.param([nothing, nothing, data] * 10, 3 * AGREED, id="uncounted-of-three-passes"),
        pytest.param([nothing, no_grad] * 15, AGREED, id="counted-of-two-passes"),
        pytest.param([data, nothing, data] * 10, 30, id="irregular"),
        pytest.param([nothing] * 30, 30, id="never"),
    ],
)
def test_each_step_is_seen(updates: Sequence[Update], waits: int) -> None:
    expected = [update is not nothing for update in updates]
    assert answers(updates) == (expected, waits)
    assert answers(updates, is_late=False) == (expected, 0)


def test_a_rhythm_that_changes_is_noticed() -> None:
    """One skipped step is taken for one; then the device is waited for again, until updates agree anew."""
    updates = [*[data] * 10, *[nothing, data] * 20]
    found, waits = answers(updates)
    expected = [update is not nothing for update in updates]
    wrong = [number for number, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b]
    assert wrong == [10]
    assert waits < 20
