"""The capture of Gluon blocks that a script registers, under smdebug's names; a step is a call of the model.

A step lasts until the next call of the model: its weights and gradients are those at that moment, after the update.
Of a hybridized model only the outermost block is called, so that no inner one is seen.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import mxnet
import numpy as np

from trackside.adapters.mxnet.adapter import Later
from trackside.adapters.shared.listening import ListeningAdapter
from trackside.capture.session import CLOSE_SECONDS, Rank, SessionOptions
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared.adapter import Undo

# As smdebug 1.0.34 has them for MXNet, whose loss blocks have a number behind their name.
REGEXES = {
    "losses": r".*loss._(?!input).*output",
    "weights": r"^(?!gradient).*weight",
    "biases": r"^(?!gradient).*bias",
    "gradients": r"^gradient",
}
# The collections without inputs and outputs of inner blocks.
_OF_THE_MODEL = frozenset({"losses", "weights", "biases", "gradients"})
_LOSS = "loss"


def array_of(value: Any) -> np.ndarray | None:
    """Return a copy of an array of MXNet, or of any other value, as an array."""
    return value.asnumpy() if isinstance(value, mxnet.nd.NDArray) else np.array(value)


class Blocks:
    """The blocks that a script has registered.

    Attributes:
        model: The model that was registered last; None before.
        listener: Gets notice of their calls.

    Args:
        begins: Called before each call of a model. Never raises.
    """

    def __init__(self, begins: Callable[[], object]) -> None:
        self._begins = begins
        self._handles: dict[Any, list[Any]] = {}
        self.model: Any = None
        self.listener: BlocksAdapter | None = None

    def has(self, block: Any) -> bool:
        """Return True if the block is registered."""
        return block in self._handles

    def register(self, block: Any, *, is_recursive: bool) -> None:
        """Capture a block from now on.

        Args:
            block: A `Block` of Gluon. The output of a loss is saved, and its calls are no steps.
            is_recursive: True to see its inner blocks, too.
        """
        if isinstance(block, mxnet.gluon.loss.Loss):
            self._see(block)
            return
        self.model = block
        self._handles.setdefault(block, []).append(block.register_forward_pre_hook(self._before))
        for each in _with_inner(block) if is_recursive else (block,):
            self._see(each)

    def leave(self) -> None:
        """Leave the blocks as they were."""
        for handles in self._handles.values():
            for handle in handles:
                handle.detach()
        self._handles.clear()

    def _see(self, block: Any) -> None:
        self._handles.setdefault(block, []).append(block.register_forward_hook(self._after))

    def _before(self, block: Any, inputs: Any) -> None:
        self._begins()
        if self.listener is not None:
            self.listener.model_called(block)

    def _after(self, block: Any, inputs: Any, outputs: Any) -> None:
        if self.listener is not None:
            self.listener.block_called(block, inputs, outputs)


def needs_inner_blocks(collections: set[str], *, has_default_regex: bool) -> bool:
    """Return True if these collections may have inputs or outputs of inner blocks."""
    return bool(collections - _OF_THE_MODEL - {"default"}) or ("default" in collections and has_default_regex)


class BlocksAdapter(ListeningAdapter):
    """The adapter of registered blocks; see `frameworks/shared/adapter.py`.

    Attributes:
        updates: The number of steps so far.
        awaited: The number of steps with numbers that are waited for.

    Args:
        environment: Address of the run, and the capture request.
        options: Options for storing the run.
        blocks: The blocks.
    """

    def __init__(
        self, environment: CaptureEnvironment, *, options: SessionOptions | None = None, blocks: Blocks
    ) -> None:
        super().__init__(environment, options=options)
        self._engine, self._statistics, self._blocks = self.session.engine, self.session.statistics, blocks
        self._root: Any = None  # of the open step; None outside of one
        self._counts = Counter[str]()
        self.updates, self.awaited = 0, -1
        self._statistics.wait = lambda seconds: self._await_all()
        protect = self.session.guard.protect
        self.model_called = protect("beginning a step", self._model_called)
        self.block_called = protect("capturing a block", self._block_called)
        self._step_ends = protect("ending a step", self._end_model_step)

    @property
    def is_in_step(self) -> bool:
        """True from the first call of a model on."""
        return self._root is not None

    def listen(self) -> Undo:
        """Listen to the blocks. Return the function that undoes it."""
        self._blocks.listener = self
        return self._blocks.leave

    def _await_all(self) -> None:
        self.awaited = self.updates

    def end_open_step(self) -> None:
        """End the step under way. Never raises."""
        if self._root is None:
            super().end_open_step()
        else:
            self._step_ends()

    def _model_called(self, block: Any) -> None:
        self._end_model_step()
        self.note_progress()
        if not self.session.has_begun:
            environment = self.session.environment
            self.session.read_request()
            rank = Rank(environment.rank, environment.world_size)
            program = ProgramFacts(framework="mxnet", framework_version=mxnet.__version__, world_size=rank.of)
            self.begin_run(rank, ModelFacts(0, (), (), (), (), program))
        self._root = block

    def _block_called(self, block: Any, inputs: Any, outputs: Any) -> None:
        if self._root is None:  # a loss before any call of the model
            return
        if isinstance(block, mxnet.gluon.loss.Loss) and self._statistics.is_on:
            with mxnet.autograd.pause():
                mean = outputs.mean()
            self._statistics.add_loss(_LOSS, Later(mean, self), mode=self._engine.mode)
        if not self._engine.due.collections:
            return
        for side, values in (("input", inputs), ("output", outputs)):
            prefix = f"{block.name}_{side}_"
            for array in _arrays(values):
                self._add(f"{prefix}{self._counts[prefix]}", array)
                self._counts[prefix] += 1

    def _end_model_step(self) -> None:
        root, self._root = self._root, None
        if root is None:
            return
        if self._engine.due.collections:
            for parameter in root.collect_params().values():
                self.session.guard.attempt(
                    f"saving the parameter {parameter.name}", functools.partial(self._add_parameter, parameter)
                )
        self._counts.clear()
        self.end_step()
        self.updates += 1

    def _add_parameter(self, parameter: Any) -> None:
        place = parameter.list_ctx()[0]
        self._add(parameter.name, lambda: parameter.data(place))
        if parameter.grad_req != "null":
            self._add(f"gradient/{parameter.name}", lambda: parameter.grad(place))

    def _add(self, name: str, value: Any) -> None:
        if self._engine.open_step.wants(name):
            array = (value() if callable(value) else value).asnumpy()
            self._engine.open_step.add(name, array.reshape(1) if array.ndim == 0 else array)

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """End the open step and the run. Never raises."""
        self._step_ends()
        super().close(timeout_seconds, is_interrupted=is_interrupted)


def _with_inner(block: Any) -> Iterator[Any]:
    found: list[Any] = []
    block.apply(found.append)
    return iter(dict.fromkeys(found))


def _arrays(values: Any) -> Iterator[Any]:
    if isinstance(values, mxnet.nd.NDArray):
        yield values
    elif isinstance(values, (list, tuple)):
        for each in values:
            yield from _arrays(each)
