"""The explicit API: a callback for the training to capture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from trackside.adapters.keras.adapter import KerasAdapter
from trackside.adapters.shared.listening import ListeningScript
from trackside.capture.place import Place
from trackside.capture.request_reading import request_of
from trackside.contracts.capture_request import CaptureRequest


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
        request = request_of(save, run, subject="The hook")
        self._capture = ListeningScript(lambda: request, KerasAdapter, place=Place(run=run))

    def on_train_begin(self, logs: Any = None) -> None:
        """Take the run of this process. Called by Keras.

        Args:
            logs: Not used.
        """
        self.begin()

    def begin(self) -> None:
        """Capture from here on: for a loop by hand. A second call does nothing."""
        self._capture.begin()

    def close(self) -> None:
        """End the run. The end of the process does so too. A second call does nothing."""
        self._capture.close()

    def __enter__(self) -> KerasHook:
        self.begin()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
