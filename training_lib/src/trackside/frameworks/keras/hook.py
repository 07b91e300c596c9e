"""The explicit API: a callback for the training to capture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import keras

from trackside.capture.guard import Guard
from trackside.capture.place import Place
from trackside.capture.request_reading import request_of, with_request_of_run
from trackside.contracts.capture_request import CaptureRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks import in_charge
from trackside.frameworks.keras.adapter import KerasAdapter


class KerasHook(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """A callback of Keras that captures the training from `fit` on; without `fit`, from the first `with` or `begin` on.

    No failure in it can end the training: a failure is logged once. Only a wrong argument raises, at once. None of it
    is needed under `trackside run`; if TRACKSIDE_RUN is set, it is the address of the run.

    Example:
        model.fit(x, y, callbacks=[trackside.KerasHook("runs/first", save={"losses": 1, "gradients": 100})])
    """

    def __init__(self, run: str = "", *, save: CaptureRequest | Mapping[str, int] | None = None) -> None:
        """Set the address of the run and the data to save.

        Args:
            run: A new folder, or `s3://bucket/prefix`.
            save: A whole request, or an interval of steps for each collection; by default losses, every 500 steps.

        Raises:
            ConfigurationError: With every problem at once.
        """
        super().__init__()
        self._request = request_of(save, run, subject="The hook")
        self._place = Place(run=run)
        self._guard = Guard()
        self._adapter: KerasAdapter | None = None
        self._is_closed = False

    def on_train_begin(self, logs: Any = None) -> None:
        """Take the run of this process. Called by Keras.

        Args:
            logs: Not used.
        """
        self.begin()

    def begin(self) -> None:
        """Capture from here on: for a loop by hand. A second call does nothing."""
        if self._adapter is None and not self._is_closed:
            self._guard.protect("beginning to capture", self._begin)()

    def close(self) -> None:
        """End the run. The end of the process does so too. A second call does nothing."""
        self._is_closed = True
        if self._adapter is not None:
            self._guard.attempt("ending the run", self._adapter.uninstall)
            self._adapter = None
            in_charge.leave()

    def __enter__(self) -> KerasHook:
        self.begin()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _begin(self) -> None:
        environment = CaptureEnvironment.read()
        request, place = self._request, self._place
        if environment.run_uri:
            request, place = with_request_of_run(request, environment.capture_request), Place(run=environment.run_uri)
        if not in_charge.put_script_in_charge():
            self._guard.warn_once("begun", "a run of this process has begun already, so this hook captures nothing.")
            self._guard.switch_off_silently()
            return
        environment = replace(environment, run_uri=place.location().uri, capture_request=request.to_json())
        self._adapter = KerasAdapter(environment)
        self._adapter.install()
