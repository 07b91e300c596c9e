"""A callback for the `Trainer` of Hugging Face's transformers."""

from __future__ import annotations

from typing import Any

from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from trackside.integrations.judged_training import JudgingCallback

AGREE_EVERY_STEPS = 20  # how often several processes agree on a stop


class TracksideCallback(JudgingCallback, TrainerCallback):  # type: ignore[misc]
    """Captures and judges each training of a `Trainer`, and stops it if asked to.

    A stop is the trainer's own: it saves a checkpoint, and `train()` returns as at the end. No checkpoint is saved
    where `save_total_limit` would remove an older one for it, or where `save_strategy` is "no". Under `trackside run`
    the training is captured already, and the callback only stops it.

    Example:
        Trainer(..., callbacks=[TracksideCallback(on_issue="stop")])
    """

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Begin the run.

        Args:
            args: Settings of the trainer.
            state: Position of the training.
            control: Requests to the trainer.
        """
        self.begin_training(is_first=state.is_world_process_zero, share=_from_first if args.world_size > 1 else str)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Look for new verdicts, and stop the training if one requests it.

        Args:
            args: Settings of the trainer.
            state: Position of the training.
            control: Requests to the trainer.
        """
        should_stop = self.training.look()
        if args.world_size > 1:
            is_turn = state.global_step % AGREE_EVERY_STEPS == 0
            should_stop = is_turn and _from_first("stop" if should_stop else "") == "stop"
        if should_stop:
            control.should_training_stop = True
            control.should_save = control.should_save or (args.save_strategy != "no" and args.save_total_limit is None)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """End the run, and wait for the verdicts on its last steps.

        Args:
            args: Settings of the trainer.
            state: Position of the training.
            control: Requests to the trainer.
        """
        self.training.finish()


def _from_first(text: str) -> str:
    """Return the text that the first process passes in, in every process."""
    texts = [text]
    broadcast_object_list(texts, from_process=0)
    return texts[0]
