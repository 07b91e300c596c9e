"""wrong-mode: the model trains in evaluation mode, or is evaluated in training mode."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ModuleFacts
from trackside.contracts.observations import EVALUATION_LINE, OWN_TRAIN_UNUSED, PROBABILITY, TRAINING_MODE_EVALUATIONS
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import NetworkRule
from trackside.rules.rule import parameter
from trackside.trial.window import Window

_DIFFERING_ROLES = ("dropout", "normalization")
_ALIKE_TYPES = (
    "LayerNorm",
    "GroupNorm",
    "RMSNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LocalResponseNorm",
)


@dataclass(frozen=True)
class WrongMode(NetworkRule):
    """The model trains in evaluation mode, is evaluated in training mode, or was never set to train.

    Why it matters:
        After an evaluation under `model.eval()`, a loop that forgets `model.train()` goes on with dropout switched off
        and batch statistics frozen. It trains another model than the one that was designed, and overfits sooner.
        An evaluation that forgets `model.eval()` measures a model with units dropped, and lets batch normalisation
        learn from the validation data: its figures are worse than the model, noisy, and depend on the batch.

    How it decides:
        The hook notes the train/eval flag of each module as the optimizer steps: at the first step, and whenever it
        has changed.

        1. It fires where the root of the model, and every module below it that behaves otherwise in training (dropout
           with a probability above zero, batch normalisation), is in evaluation mode while the optimizer steps.
        2. It must hold for `steps` steps: a single step in the wrong mode is no verdict.
        3. It also fires where a loss was taken of a model in training mode while gradients were off, at least
           `evaluations` times, and some module in training mode behaves otherwise there. A loop that computes accuracy
           alone counts where predictions and labels are compared after each call, of several batches or of one held-out
           tensor, and the script has not called `model.train()` for it. Each time must be one call of
           the model for one loss, with training steps between one time and the next: Monte-Carlo dropout, targets of
           another loss, statistics estimated anew and what belongs to every step are no evaluation, unless the same
           tensor comes each time, which the training never gets. Once the script has called `model.eval()` nothing
           more is counted. With gradients on it is a whole pass over a DataLoader, of two batches or more, whose last
           two passes led to no backward pass.
        4. It also fires where a class outside of torch has a `train` of its own that freezes stages or holds layers in
           evaluation mode, and nothing has called it with True in `own_train_steps` steps: they were never frozen. This
           is known where the script is watched from its start.
        5. A model in train mode in which some normalisation layers are in evaluation mode was set so on purpose (frozen
           batch normalisation in fine-tuning), and is silent. So is a model with no module that behaves otherwise.

        It needs no neighbouring steps; what must last has been seen at as many watched steps.

    Example:
        ```python
        from trackside.contracts.model_facts import ModelFacts, ModuleFacts
        from trackside.contracts.observations import PROBABILITY
        from trackside.rules.program.wrong_mode import differing_modules, evaluating_modules

        net = ModuleFacts("Net", "Net", is_training=False)
        drop = ModuleFacts("drop", "Dropout", "dropout", is_training=False, observed={PROBABILITY: 0.5})
        assert evaluating_modules(ModelFacts(modules=(net, drop))) == (drop,)

        trains = ModuleFacts("Net", "Net", is_training=True)
        assert evaluating_modules(ModelFacts(modules=(trains, drop))) == ()

        drops = ModuleFacts("drop", "Dropout", "dropout", observed={PROBABILITY: 0.5})
        assert differing_modules(ModelFacts(modules=(trains, drops))) == (drops,)
        ```

    References:
        - PyTorch, `torch.nn.Module.train`: which modules behave otherwise in training.
        - TheDeepChecker (TOSEM 2022): a model whose training and evaluation behaviour differ.
    """

    rule_id = "wrong-mode"
    code = "TS215"
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.TRAIN_EVAL_MODE,)
    shows_its_cause = True
    what_to_do = (
        "Call model.train() at the start of each training epoch, and model.eval() before each evaluation.",
        "If layers are frozen on purpose, set only these to eval() after model.train().",
    )

    steps: int = parameter(5, "steps that the optimizer must have stepped in evaluation mode", minimum=1)
    own_train_steps: int = parameter(20, "steps that a `train` of its own must have gone without a call", minimum=1)
    evaluations: int = parameter(2, "evaluations that the model must have made in training mode", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per module in the wrong mode that behaves differently in training."""
        facts = window.facts
        if facts is None:
            return []
        found: list[Finding] = []
        if TRAINING_MODE_EVALUATIONS.of(facts.program) >= self.evaluations:
            found += [self._evaluated(window, facts, module) for module in differing_modules(facts)]
        if window.watched_since(facts.from_step) >= self.steps:
            found += [self._trained(window, facts, module) for module in evaluating_modules(facts)]
        if window.watched_since(facts.from_step) >= self.own_train_steps:
            found += [self._unused(window, facts, module) for module in facts.modules if OWN_TRAIN_UNUSED.of(module)]
        return found

    def lacks(self, window: Window) -> str:
        """Return a clause if the hook recorded no facts about modules."""
        if window.facts is None:
            return "facts about the program's modules, which Trackside's hook records"
        return ""

    def _evaluated(self, window: Window, facts: ModelFacts, module: ModuleFacts) -> Finding:
        return finding_of(
            window,
            module.name,
            "evaluations in training mode",
            float(TRAINING_MODE_EVALUATIONS.of(facts.program)),
            above=float(self.evaluations - 1),
            since=facts.from_step,
            place=EVALUATION_LINE.of(facts.program) or module.line,
        )

    def _unused(self, window: Window, facts: ModelFacts, module: ModuleFacts) -> Finding:
        steps = window.step - facts.from_step
        return finding_of(
            window,
            module.name,
            f"steps without a call of {module.type_name}.train()",
            float(steps + 1),
            above=float(self.own_train_steps),
            since=facts.from_step,
            place=module.line,
        )

    def _trained(self, window: Window, facts: ModelFacts, module: ModuleFacts) -> Finding:
        steps = window.step - facts.from_step
        return finding_of(
            window,
            module.name,
            "steps in evaluation mode",
            float(steps + 1),
            above=float(self.steps),
            since=facts.from_step,
            place=module.line,
        )


def evaluating_modules(facts: ModelFacts) -> tuple[ModuleFacts, ...]:
    """Return the modules that behave differently in training, if all of them and the model are in evaluation mode."""
    if not facts.modules or any(module.is_training for module in facts.modules):
        return ()
    return tuple([module for module in facts.modules if _differs_in_training(module)])


def differing_modules(facts: ModelFacts) -> tuple[ModuleFacts, ...]:
    """Return the modules in training mode that behave differently in evaluation mode."""
    return tuple([module for module in facts.modules if module.is_training and _differs_in_training(module)])


def _differs_in_training(module: ModuleFacts) -> bool:
    if module.role == "dropout":
        probability = PROBABILITY.of(module)
        return probability is None or probability > 0
    return module.role in _DIFFERING_ROLES and module.type_name not in _ALIKE_TYPES
