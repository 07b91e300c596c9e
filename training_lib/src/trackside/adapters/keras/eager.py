"""Steps without the compiler: what a step that is saved needs, where the backend compiles it."""

from __future__ import annotations

import sys
from typing import Any

import keras


class EagerSteps:
    """Switches compilation off and on again. Nothing is traced anew by it."""

    def __init__(self) -> None:
        self._restore: Any = None

    def begin(self) -> None:
        """Run the step that begins as plain calls, if the backend is TensorFlow and the user does not do so already."""
        if self._restore is None and keras.backend.backend() == "tensorflow":
            config = sys.modules["tensorflow"].config
            if not config.functions_run_eagerly():
                config.run_functions_eagerly(True)
                self._restore = config.run_functions_eagerly

    def end(self) -> None:
        """Compile steps again, if `begin` has changed that."""
        if self._restore is not None:
            self._restore(False)
            self._restore = None
