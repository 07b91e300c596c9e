"""A run of any Python program: NumPy, an unknown framework, or none."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from trackside.capture.ground.guard import Guard
from trackside.capture.own_address import new_training
from trackside.capture.place import Place
from trackside.capture.request_reading import request_of, with_request_of_run
from trackside.contracts.capture_request import CaptureRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks.plain.adapter import PlainAdapter
from trackside.frameworks.shared import in_charge
from trackside.records.modes import checked_mode

_OPEN: set[Run] = set()  # those that have not ended


class Run:
    """A run of one training in a program that passes its own numbers, to be judged by the same rules.

    No failure in it can end the training: a failure is logged once, and the rest goes on. Only a wrong argument raises,
    at once. Nothing is written before the first value. Under `trackside run`, TRACKSIDE_RUN sets the address of the
    run.

    Example:
        with trackside.Run("runs/first", save={"losses": 1, "gradients": 100}) as run:
            for step in range(1000):
                loss, gradients = model(batch)
                run.loss(loss)
                run.parameters(weights, gradients, learning_rate=0.1)
                update(weights, gradients)
                run.step()
    """

    def __init__(self, run: str = "", *, save: CaptureRequest | Mapping[str, int] | None = None) -> None:
        """Set the address of the run and the data to save.

        Args:
            run: A new folder, or `s3://bucket/prefix`.
            save: A whole request, or an interval of steps for each collection; by default losses, every 500 steps.

        Raises:
            ConfigurationError: With every problem at once.
        """
        self._request = request_of(save, run, subject="The run")
        self._guard = Guard()
        self._adapter: PlainAdapter | None = None
        self._is_closed = False
        self._mode = "TRAIN"
        self._training = new_training(run, self._at)
        _OPEN.add(self)

    def loss(self, value: Any, name: str = "loss") -> None:
        """Record a loss of the open step, as `<name>_output_<k>`.

        Args:
            value: A number, or anything that `float` takes.
            name: Its name; one that does not end with "loss" gets "_loss" behind it.
        """
        self._record("recording a loss", lambda adapter: adapter.add_loss(loss_name(name), float(value)))

    def parameters(
        self,
        weights: Mapping[str, Any] | None = None,
        gradients: Mapping[str, Any] | None = None,
        *,
        updates: Mapping[str, Any] | None = None,
        learning_rate: float | None = None,
    ) -> None:
        """Record weights and gradients of the open step. Call it right before the update, once in a step.

        Args:
            weights: Arrays by the name of the parameter; a name with neither "weight" nor "bias" in it gets ".weight"
                behind it.
            gradients: The gradients, by the same names; saved as `gradient/<name>`.
            updates: The change that the update adds to each weight, for the rules that compare the two.
            learning_rate: The learning rate of the step.
        """
        self._record(
            "recording parameters",
            lambda adapter: adapter.add_parameters(named(weights), named(gradients), named(updates), learning_rate),
        )

    def tensor(self, name: str, value: Any, *, collection: str = "default") -> None:
        """Save an array or list with the open step, regardless of the schedules.

        Args:
            name: Name of the tensor.
            value: An array, or a list of numbers.
            collection: The collection that it belongs to.
        """
        self._record("saving a tensor", lambda adapter: adapter.add_tensor(name, value, collection))

    def scalar(self, name: str, value: Any) -> None:
        """Save a number with the open step, regardless of the schedules.

        Args:
            name: Its name; it is saved as `scalar/<name>`.
            value: A number, or anything that `float` takes.
        """
        self._record("saving a scalar", lambda adapter: adapter.add_scalar(name, float(value)))

    def set_mode(self, mode: str = "TRAIN") -> None:
        """Set the mode of the next steps.

        Args:
            mode: "TRAIN", "EVAL", "PREDICT" or "GLOBAL".

        Raises:
            ValueError: It is none of these.
        """
        self._mode = checked_mode(mode.upper())
        if self._adapter is not None:
            self._record("setting the mode", lambda adapter: adapter.set_mode(self._mode))

    def step(self) -> None:
        """End the open step. Call it at the end of the loop's body."""
        self._record("ending a step", PlainAdapter.end_step)

    def flush(self) -> None:
        """Wait until the steps that have ended are stored, at most some seconds."""
        if self._adapter is not None:
            self._guard.attempt("storing steps", self._adapter.flush)

    def close(self) -> None:
        """End the run. The end of the process does so too. A second call does nothing."""
        self._is_closed = True
        _OPEN.discard(self)
        if self._adapter is not None:
            self._guard.attempt("ending the run", self._adapter.uninstall)
            self._adapter = None
            in_charge.leave()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _at(self, address: str) -> _Training:
        self._place = Place(run=address)
        return _Training(self)

    def _record(self, doing: str, act: Callable[[PlainAdapter], object]) -> None:
        if self._is_closed:
            return
        if self._adapter is None:
            self._guard.protect("beginning to capture", self._begin)()
        if self._adapter is not None:
            self._adapter.session.guard.protect(doing, functools.partial(act, self._adapter))()

    def _begin(self) -> None:
        environment = CaptureEnvironment.read()
        request, place = self._request, self._place
        if environment.run_uri:
            request, place = with_request_of_run(request, environment.capture_request), Place(run=environment.run_uri)
        if not in_charge.put_script_in_charge():
            self._guard.warn_once("begun", "a run of this process has begun already, so this one records nothing.")
            self._is_closed = True
            return
        adapter = PlainAdapter(replace(environment, run_uri=place.location().uri, capture_request=request.to_json()))
        self._adapter = adapter
        adapter.session.guard.protect("beginning to capture", adapter.install)()
        adapter.set_mode(self._mode)


class _Training:
    """The training of a run, as `new_training` ends it. An interrupted cell keeps no name for its run; `_OPEN` does."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def has_begun(self) -> bool:
        return self._run._adapter is not None

    @property
    def is_over(self) -> bool:
        return self._run._is_closed

    def abandon(self) -> None:
        self._run.close()

    def close(self) -> None:
        self._run.close()


def loss_name(name: str) -> str:
    """Return the name of a loss as the rules find it: it ends with "loss".

    Args:
        name: The name that the program gave.
    """
    return name if name.lower().endswith("loss") else f"{name}_loss"


def named(arrays: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return arrays with names by which the rules find them: each holds "weight" or "bias".

    Args:
        arrays: Arrays by the names of the program; None for none.
    """
    found = {} if arrays is None else arrays
    return {name if "weight" in name or "bias" in name else f"{name}.weight": a for name, a in found.items()}
