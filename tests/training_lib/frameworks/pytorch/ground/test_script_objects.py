from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from trackside.frameworks.pytorch.ground.script_objects import (
    attribute_of,
    first_parameter_of,
    length_of,
    modules_of,
    named_buffers_of,
    named_modules_of,
    named_parameters_of,
    own_buffers_of,
    own_parameters_of,
    parameters_of,
    set_to_evaluation,
    tensors_of,
)


class Net(nn.Module):
    """A tied weight, a layer of its own, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 3)
        self.tail = nn.Sequential(nn.Linear(3, 3, bias=False), nn.BatchNorm1d(3, affine=False))
        self.tail[0].weight = self.head.weight
        self.register_buffer("mask", torch.ones(3))


class OfPositionsAlone(Net):
    """Takes no `remove_duplicate`, as torchrl's losses."""

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[Any]:  # type: ignore[override]
        return super().named_parameters(prefix, recurse)


class WithoutArguments(Net):
    def named_parameters(self) -> Iterator[Any]:  # type: ignore[override]
        return super().named_parameters()

    def named_modules(self) -> Iterator[Any]:  # type: ignore[override]
        return nn.Module.named_modules(self)

    def named_buffers(self) -> Iterator[Any]:  # type: ignore[override]
        return nn.Module.named_buffers(self)

    def parameters(self) -> Iterator[Any]:  # type: ignore[override]
        return super().parameters()


class Failing(Net):
    """Wants an argument of its own everywhere, or fails."""

    def named_parameters(self, which: str) -> Iterator[Any]:  # type: ignore[override]
        raise NotImplementedError(which)

    def named_modules(self, which: str) -> Iterator[Any]:  # type: ignore[override]
        raise NotImplementedError(which)

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        raise RuntimeError("none today")

    def parameters(self, which: str) -> Iterator[Any]:  # type: ignore[override]
        raise NotImplementedError(which)


class Later(Net):
    """Fails while its answer is read."""

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        yield "head.weight", self.head.weight
        raise KeyError("gone")

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        yield self.head.weight
        raise KeyError("gone")


class OfOtherKinds(Net):
    """Answers in a form of its own."""

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        return {("head", "weight"): self.head.weight}

    def named_modules(self, *args: Any, **kwargs: Any) -> Any:
        return [self.head, self.tail]

    def parameters(self, recurse: bool = True) -> Any:
        return ["head.weight"]


class Hiding(Net):
    """Hides its tail on purpose, as torchrl hides the parameters of targets."""

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        return iter([("inner.weight", self.head.weight)])


class Empty(Net):
    """Is false, and has attributes that fail."""

    def __len__(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        if name in {"_parameters", "_buffers", "_modules", "head", "tail", "mask"}:
            return super().__getattr__(name)
        raise KeyError(name)


TIED = ["head.weight", "head.bias", "tail.0.weight"]
MODULES = ["", "head", "tail", "tail.0", "tail.1"]
BUFFERS = ["mask", "tail.1.running_mean", "tail.1.running_var", "tail.1.num_batches_tracked"]


def names(pairs: list[Any]) -> list[str]:
    return [name for name, _ in pairs]


@pytest.mark.parametrize(
    ("kind", "every_name", "modules"),
    [
        pytest.param(Net, TIED, MODULES, id="usual"),
        pytest.param(OfPositionsAlone, TIED[:2], MODULES, id="of-positions-alone"),
        pytest.param(WithoutArguments, TIED, MODULES, id="without-arguments"),
        pytest.param(Failing, TIED, MODULES, id="failing"),
        pytest.param(Later, TIED, MODULES, id="failing-later"),
        pytest.param(OfOtherKinds, TIED, MODULES, id="of-other-kinds"),
        pytest.param(Empty, TIED, MODULES, id="empty"),
    ],
)
def test_a_module_answers(kind: type[Net], every_name: list[str], modules: list[str]) -> None:
    module = kind()
    assert names(named_parameters_of(module, every_name=True)) == every_name
    assert names(named_parameters_of(module)) == TIED[:2]
    assert [id(each) for each in parameters_of(module)] == [id(module.head.weight), id(module.head.bias)]
    assert first_parameter_of(module) is module.head.weight
    assert names(named_modules_of(module)) == modules
    assert len(modules_of(module)) == len(modules)
    assert names(named_buffers_of(module)) == BUFFERS
    assert len(tensors_of(module)) == 2 + len(BUFFERS)
    assert names(own_buffers_of(module)) == ["mask"]
    assert own_parameters_of(module) == []
    set_to_evaluation(module)
    assert not any(each.training for each in modules_of(module))


def test_what_an_override_hides_or_renames_stays_so() -> None:
    module = Hiding()
    assert named_parameters_of(module, every_name=True) == [("inner.weight", module.head.weight)]
    assert parameters_of(module)[0] is module.head.weight


def test_as_pytorch_itself() -> None:
    """The walk of ours is that of PyTorch."""
    ours, theirs = Failing(), Net()
    assert names(named_modules_of(ours)) == names(list(theirs.named_modules()))
    assert names(named_buffers_of(ours)) == names(list(theirs.named_buffers()))
    assert names(named_parameters_of(ours, every_name=True)) == names(
        list(theirs.named_parameters(remove_duplicate=False))
    )


def test_a_module_without_parameters() -> None:
    module = nn.ReLU()
    assert first_parameter_of(module) is None
    assert (parameters_of(module), named_buffers_of(module)) == ([], [])


def test_one_that_cannot_be_set_to_evaluation_is_set() -> None:
    class OfItsOwn(Net):
        def train(self) -> OfItsOwn:  # type: ignore[override]
            return self

    module = OfItsOwn()
    set_to_evaluation(module)
    assert not any(each.training for each in modules_of(module))


class WithoutLength:
    def __len__(self) -> int:
        raise NotImplementedError


class WithBoundLength:
    """As `NumpySliceable` of Keras: rows, and no `__len__`."""

    def __getitem__(self, place: int) -> int:
        return place


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(lambda: [1, 2], 2, id="list"),
        pytest.param(lambda: torch.utils.data.TensorDataset(torch.ones(5)), 5, id="data-set"),
        pytest.param(WithoutLength, None, id="not-implemented"),
        pytest.param(WithBoundLength, None, id="no-length"),
        pytest.param(lambda: None, None, id="nothing"),
    ],
)
def test_length(make: Callable[[], object], expected: int | None) -> None:
    assert length_of(make()) == expected


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        pytest.param(torch.optim.SGD([torch.ones(1)], lr=0.1), "param_groups", True, id="there"),
        pytest.param(object(), "missing", False, id="missing"),
        pytest.param(Empty(), "missing", False, id="fails"),
    ],
)
def test_attribute(value: object, name: str, *, expected: bool) -> None:
    assert (attribute_of(value, name) is not None) == expected
