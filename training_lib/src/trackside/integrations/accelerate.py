"""A tracker for Hugging Face's accelerate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelerate.state import PartialState
from accelerate.tracking import GeneralTracker
from accelerate.utils import broadcast_object_list

from trackside.integrations.judged_training import JudgedTraining, JudgingCallback


class TracksideTracker(JudgingCallback, GeneralTracker):  # type: ignore[misc]
    """Captures and judges the training of an `Accelerator`.

    The loop is the script's own, and so is the stop: `should_stop` is True in the main process after a critical issue,
    and `Accelerator.set_trigger` carries it to the others.

    Example:
        tracker = TracksideTracker(on_issue="stop")
        accelerator = Accelerator(log_with=tracker)
        accelerator.init_trackers("project")
        for batch in loader:
            ...
            if tracker.should_stop:
                accelerator.set_trigger()
            if accelerator.check_trigger():
                accelerator.save_state("stopped")
                break
        accelerator.end_training()
    """

    name = "trackside"
    requires_logging_directory = False
    main_process_only = False  # every process captures its part; the main one judges

    @property
    def tracker(self) -> JudgedTraining:
        """The judged training, for `Accelerator.get_tracker`."""
        return self.training

    @property
    def should_stop(self) -> bool:
        """True once a critical issue was found, with `on_issue="stop"`. Looks for new verdicts."""
        return self.training.look()

    def start(self) -> None:
        """Begin the run. `Accelerator.init_trackers` calls it."""
        state = PartialState()
        self.begin_training(is_first=state.is_main_process, share=_from_first if state.num_processes > 1 else str)

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Do nothing: the run records the hyperparameters of optimizers by itself.

        Args:
            values: Hyperparameters.
        """

    def log(self, values: Mapping[str, Any], step: int | None = None, **_: Any) -> None:
        """Look for new verdicts.

        Args:
            values: Values for other trackers.
            step: Number of the step for other trackers.
        """
        self.training.look()

    def finish(self) -> None:
        """End the run, and wait for the verdicts on its last steps. `Accelerator.end_training` calls it."""
        self.training.finish()


def _from_first(text: str) -> str:
    """Return the text that the first process passes in, in every process."""
    texts = [text]
    broadcast_object_list(texts, from_process=0)
    return texts[0]
