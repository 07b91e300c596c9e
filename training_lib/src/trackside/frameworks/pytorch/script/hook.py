"""The explicit API: a hook in the script, for whoever wants to say what is watched, and when a step ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.asked_request import request_of
from trackside.capture.place import Place
from trackside.capture.step_engine import TRAIN
from trackside.contracts.capture_request import CaptureRequest
from trackside.frameworks.pytorch.script.capture import ScriptedCapture


class Hook:
    """Watches one training and writes its run.

    Nothing that it does can end the training: what fails is said once, and the rest goes on. Only a wrong argument
    raises, at once. None of it is needed under `trackside run`; where TRACKSIDE_RUN is set, the run lies there.

    Example:
        with trackside.Hook("runs/first", save={"losses": 1, "gradients": 100}) as hook:
            hook.watch(model, loss=criterion)
            train(model)
    """

    def __init__(self, run: str = "", *, save: CaptureRequest | Mapping[str, int] | None = None) -> None:
        """`run` is a new folder, or `s3://bucket/prefix`.

        `save` is a whole request, or for each collection every how many steps it is saved; by default losses, every
        500 steps. Errors: `ConfigurationError` with every problem at once.
        """
        request = request_of(save, run, subject="The hook")
        self._capture = ScriptedCapture(lambda: request, place=Place(run=run))

    def watch(
        self,
        model: torch.nn.Module,
        *,
        loss: torch.nn.Module | None = None,
        optimizer: Optimizer | Iterable[Optimizer] | None = None,
    ) -> None:
        """Names a model; from then on only named ones are captured, and only steps of optimizers that train them count.

        `loss`: a loss module that is saved under the name of its class; others are found by themselves. `optimizer`:
        needed only for one that is neither built nor stepped by `torch.optim`.
        """
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"A model is a torch.nn.Module, not a {type(model).__name__}.")
        self._capture.register(model)
        if loss is not None:
            self._capture.register_loss(loss)
        for each in [optimizer] if isinstance(optimizer, Optimizer) else optimizer or ():
            self._capture.register_optimizer(each)

    @property
    def step_number(self) -> int:
        """The number of the step that the script is in, over all modes; -1 before the first.

        After `optimizer.step()` that is the step just made, until a model is called again.
        """
        return self._capture.now.step

    def step(self) -> None:
        """Ends the step here. From the first call on, steps end by these calls, and no longer with the optimizer's.

        Call it at the end of the loop's body, or at its beginning: a first call before anything has happened ends
        nothing.
        """
        self._capture.end_step()

    def set_mode(self, mode: str = TRAIN) -> None:
        """Says what the next steps are for: "TRAIN", "EVAL", "PREDICT" or "GLOBAL". Errors: `ValueError`."""
        self._capture.set_mode(mode.upper())

    def save_tensor(self, name: str, value: Any, *, collection: str = "default") -> None:
        """Saves a tensor, array or list with the open step, whatever the schedules say."""
        self._capture.save_tensor(name, value, collections=(collection,))

    def save_scalar(self, name: str, value: Any) -> None:
        """Saves a number as `scalar/<name>` with the open step, whatever the schedules say."""
        self._capture.save_scalar(name, value)

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._capture.is_over

    def close(self) -> None:
        """Ends the run: the last step is saved, and nothing is captured any more. At the process's end by itself."""
        self._capture.close()

    def __enter__(self) -> Hook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
