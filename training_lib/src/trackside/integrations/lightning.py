"""A callback for the `Trainer` of Lightning."""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError:  # the same under its older name
    from pytorch_lightning import Callback, LightningModule, Trainer

from trackside.integrations.judged_training import JudgingCallback

AGREE_EVERY_STEPS = 20  # batches after which several processes agree on a stop
FAILED_SECONDS = 2.0  # of waiting for the last verdicts on a training that failed


class TracksideCallback(JudgingCallback, Callback):  # type: ignore[misc]
    """Captures and judges each fit of a `Trainer`, and stops it if asked to.

    A stop is the trainer's own: it sets `trainer.should_stop`, and `ModelCheckpoint` saves as at the end of an epoch.
    Under `trackside run` the training is captured already, and the callback only stops it.

    Example:
        Trainer(callbacks=[TracksideCallback(on_issue="stop")])
    """

    _batches = 0  # of all epochs, which may differ in length

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin the run.

        Args:
            trainer: The trainer.
            pl_module: The module in training.
        """

        def from_first(text: str) -> str:
            return str(trainer.strategy.broadcast(text))

        self.begin_training(is_first=trainer.is_global_zero, share=from_first if trainer.world_size > 1 else str)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Look for new verdicts, and stop the training if one requests it.

        Args:
            trainer: The trainer.
            pl_module: The module in training.
            outputs: Result of the training step.
            batch: The batch.
            batch_idx: Its number in the epoch.
        """
        should_stop = self.training.look()
        if trainer.world_size > 1:
            self._batches += 1
            is_turn = self._batches % AGREE_EVERY_STEPS == 0
            should_stop = is_turn and bool(trainer.strategy.broadcast(should_stop))
        if should_stop:
            trainer.should_stop = True

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """End the run, and wait for the verdicts on its last steps.

        Args:
            trainer: The trainer.
            pl_module: The module in training.
        """
        self.training.finish()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """End the run of a training that failed, without a long wait.

        Args:
            trainer: The trainer.
            pl_module: The module in training.
            exception: The failure, which the trainer raises again.
        """
        self.training.finish(limit_seconds=FAILED_SECONDS, status=1)
