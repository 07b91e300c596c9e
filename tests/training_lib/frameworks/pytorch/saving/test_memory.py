"""A step whose copy would not fit into the free memory: it is lost as a whole, and the next is tried."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from trackside.capture.free_memory import MemoryRoom
from trackside.capture.guard import Guard
from trackside.capture.step_engine import StepEngine
from trackside.capture.step_tensors import StepTensors
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver

NAMED = [("layer.weight", torch.ones(16 << 20)), ("layer.bias", torch.ones(4))]  # 64 MiB
SMALL = [("layer.weight", torch.ones(16)), ("layer.bias", torch.ones(4))]
Named = list[tuple[str, torch.Tensor]]


def one_by_one(saver: TensorSaver, named: Named) -> None:
    for name, tensor in named:
        saver.save(name, tensor)


def trained(save: Callable[[TensorSaver, Named], None], free: list[int | None], named: Named) -> list[StepTensors]:
    """The steps that are handed on, one for each amount of free memory."""
    taken: list[StepTensors] = []
    engine = StepEngine(
        CaptureRequest((CollectionRequest("weights", Schedule(1)), CollectionRequest("biases", Schedule(1))))
    )
    engine.connect(type("Taken", (), {"submit": lambda _, step: taken.append(step) or True})())
    left = iter(free)
    saver = TensorSaver(engine, Guard(), shards={}, room=MemoryRoom(lambda: next(left)))
    saver.training_began()
    for _ in free:
        save(saver, named)
        engine.end_step()
    return taken


@pytest.mark.parametrize("save", [TensorSaver.save_all, one_by_one])
@pytest.mark.parametrize(
    ("free", "named", "saved"),
    [
        pytest.param([1 << 40, 1 << 28, 1 << 40], NAMED, [True, False, True], id="one step lacks the memory"),
        pytest.param([0, 0], NAMED, [False, False], id="there never is any"),
        pytest.param([None, None], NAMED, [True, True], id="nobody knows"),
        pytest.param([0, 0], SMALL, [True, True], id="small tensors need no look"),
    ],
)
def test_a_step_without_memory_is_lost_as_a_whole(
    save: Callable[[TensorSaver, Named], None], free: list[int | None], named: Named, saved: list[bool]
) -> None:
    steps = trained(save, free, named)
    assert [step.step for step in steps] == list(range(len(free)))
    for step, is_saved in zip(steps, saved, strict=True):
        assert dict(step.tensors).keys() == ({name for name, _ in named} if is_saved else set())
        assert ("of memory are free" in step.lost) != is_saved
