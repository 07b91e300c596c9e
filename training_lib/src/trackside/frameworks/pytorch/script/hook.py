"""The explicit API: a hook in the script, to choose the models to watch and the ends of steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.own_address import new_training
from trackside.capture.place import Place
from trackside.capture.request_reading import request_of
from trackside.capture.steps.step_engine import TRAIN
from trackside.contracts.capture_request import CaptureRequest
from trackside.frameworks.pytorch.script.capture import ScriptedCapture


class Hook:
    """A hook in the script that watches one training and writes its run.

    No failure in it can end the training: a failure is logged once, and the rest goes on. Only a wrong argument raises,
    at once. None of it is needed under `trackside run`; if TRACKSIDE_RUN is set, it is the address of the run.

    Example:
        with trackside.Hook("runs/first", save={"losses": 1, "gradients": 100}) as hook:
            hook.watch(model, loss=criterion)
            train(model)
    """

    def __init__(self, run: str = "", *, save: CaptureRequest | Mapping[str, int] | None = None) -> None:
        """Set the address of the run and the data to save.

        Args:
            run: A new folder, or `s3://bucket/prefix`. A second hook with it in one process, as of a cell that is run
                again, ends the first one's run and writes to `<run>-2`.
            save: A whole request, or an interval of steps for each collection; by default losses, every 500 steps.

        Raises:
            ConfigurationError: With every problem at once.
        """
        request = request_of(save, run, subject="The hook")
        self._capture = new_training(run, lambda address: ScriptedCapture(lambda: request, place=Place(run=address)))

    def watch(
        self,
        model: torch.nn.Module,
        *,
        loss: torch.nn.Module | None = None,
        optimizer: Optimizer | Iterable[Optimizer] | None = None,
    ) -> None:
        """Register a model. From then on only registered ones are captured, and only steps of their optimizers count.

        Args:
            model: The model.
            loss: A loss module to save under the name of its class; others are found by themselves.
            optimizer: Needed only for one that is neither built nor stepped by `torch.optim`.

        Raises:
            TypeError: The model is no `torch.nn.Module`.
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
        """End the step here. From the first call on, steps end by these calls, and no longer with the optimizer's.

        Call it at the end of the loop's body, or at its beginning: a first call before anything has happened ends
        nothing.
        """
        self._capture.end_step()

    def set_mode(self, mode: str = TRAIN) -> None:
        """Set the mode of the next steps.

        Args:
            mode: "TRAIN", "EVAL", "PREDICT" or "GLOBAL".

        Raises:
            ValueError: It is none of these.
        """
        self._capture.set_mode(mode.upper())

    def save_tensor(self, name: str, value: Any, *, collection: str = "default") -> None:
        """Save a tensor, array or list with the open step, regardless of the schedules.

        Args:
            name: Name of the tensor.
            value: A tensor, array, number, text or list.
            collection: The collection that it belongs to.
        """
        self._capture.save_tensor(name, value, collections=(collection,))

    def save_scalar(self, name: str, value: Any) -> None:
        """Save a number with the open step, regardless of the schedules.

        Args:
            name: Its name; it is saved as `scalar/<name>`.
            value: A single number.
        """
        self._capture.save_scalar(name, value)

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._capture.is_over

    def close(self) -> None:
        """End the run: the last step is saved, and nothing more is captured. The end of the process does so too."""
        self._capture.close()

    def __enter__(self) -> Hook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
