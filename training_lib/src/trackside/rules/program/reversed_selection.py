"""reversed-selection: the best model is chosen, or the training stopped, by a number that is to go the other way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.observations import SELECTIONS, SelectionFacts
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import ProgramRule
from trackside.trial.window import Window

_LOWER = frozenset(["loss", "losses", "mse", "mae", "rmse", "perplexity", "wer", "cer", "error", "nll", "bce"])
_HIGHER = frozenset(
    ["acc", "accs", "accuracy", "accuracies", "auc", "auroc", "f1", "recall", "precision", "iou", "miou", "bleu"]
)
_BESIDE = frozenset([
    "val", "valid", "validation", "eval", "dev", "test", "train", "training", "total", "mean", "avg", "average",
    "epoch", "step", "current", "cur", "squared", "absolute", "root", "rate", "cross", "entropy", "ce", "binary",
    "categorical", "sparse", "top", "k", "1", "5", "top1", "top5", "macro", "micro", "weighted", "balanced", "score",
])  # fmt: skip


@dataclass(frozen=True)
class ReversedSelection(ProgramRule):
    """The best model is chosen, or the training stopped, by a number that is to go the other way.

    Why it matters:
        Early stopping with `mode="min"` on an accuracy takes the first epoch for the best one: it ends the training
        after its patience and restores the weakest weights. A checkpoint with `mode="max"` on a loss keeps the worst
        model. A schedule that waits for a plateau lowers the rate while the model improves. No curve shows it.

    How it decides:
        The hook reads the monitored name and the mode of `EarlyStopping`, `ModelCheckpoint` and `ReduceLROnPlateau` of
        Keras and Lightning, and `metric_for_best_model` with `greater_is_better` of a Trainer of transformers. Of
        PyTorch's `ReduceLROnPlateau` it reads the variable in the call of `step`, once five values have gone against
        the mode: they fell with "max", or rose with "min".

        1. A name has words for what is to fall (loss, mse, mae, rmse, perplexity, error, wer, cer) or for what is to
           rise (accuracy, acc, auc, f1, precision, recall, iou, bleu).
        2. It fires where the mode is the other one. A name with words of both kinds, or with a word that is in no list
           ("neg_loss", "adversarial_loss"), decides nothing.

        Callbacks that decide by themselves (`mode="auto"`) or keep every checkpoint are silent, and a selection by hand
        is not seen.

    Example:
        ```python
        from trackside.contracts.observations import SelectionFacts
        from trackside.rules.program.reversed_selection import is_reversed, direction_of

        assert direction_of("val_loss") == "min" and direction_of("val_accuracy") == "max"
        assert direction_of("neg_val_loss") == ""
        assert is_reversed(SelectionFacts("EarlyStopping", "val_accuracy", "min"))
        assert not is_reversed(SelectionFacts("EarlyStopping", "val_accuracy", "max"))
        ```

    References:
        - Keras, `EarlyStopping`: "in min mode, training will stop when the quantity monitored has stopped decreasing".
    """

    rule_id = "reversed-selection"
    code = "TS224"
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.REVERSED_SELECTION,)
    shows_its_cause = True
    what_to_do = ('Set mode="max" for an accuracy and mode="min" for a loss, or leave the mode out in Keras.',)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per selection that goes the wrong way."""
        facts = window.facts if window.facts is not None else ModelFacts()
        return [
            finding_of(
                window,
                found.kind,
                f'selections with mode "{found.mode}" by {found.monitor}, which is better '
                f"{'higher' if found.mode == 'min' else 'lower'}",
                1.0,
                above=0.0,
                since=facts.from_step,
                place=found.line,
            )
            for found in SELECTIONS.of(facts.program)
            if is_reversed(found)
        ]


def direction_of(name: str) -> str:
    """Return "min" for the name of a number that is to fall, "max" for one that is to rise, "" if it is unknown."""
    words = set(re.findall(r"[a-z]+[0-9]*|[0-9]+", name.lower()))
    falls, rises = bool(words & _LOWER), bool(words & _HIGHER)
    if falls == rises or words - _LOWER - _HIGHER - _BESIDE:
        return ""
    return "min" if falls else "max"


def is_reversed(selection: SelectionFacts) -> bool:
    """Return True if the name of the number has the other direction than the selection's mode."""
    return direction_of(selection.monitor) not in ("", selection.mode)
