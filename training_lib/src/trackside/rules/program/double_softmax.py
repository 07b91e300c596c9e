"""double-softmax: probabilities are given to a loss that takes the softmax itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import LossRule
from trackside.rules.rule import parameter
from trackside.trial.window import Window


@dataclass(frozen=True)
class DoubleSoftmax(LossRule):
    """Probabilities are given to a loss that takes the softmax itself.

    Why it matters:
        Cross entropy expects scores (logits) and applies log-softmax to them. After a softmax of the model's own the
        scores lie between 0 and 1: the loss cannot come near zero, gradients are small, and the model learns slowly
        and stays less sure than it could be. Nothing fails.

    How it decides:
        1. On the first captured step the hook notes the function that returned the loss's predictions.
        2. It fires for a cross entropy whose predictions came straight out of softmax, log-softmax or sigmoid, at
           every training loss for which that holds, from step `start_step` on.

        log-softmax before cross entropy changes nothing in exact arithmetic, but is not what was meant, and fires as
        well. Probabilities that were computed further back, or by hand, are not seen.

    Example:
        ```python
        from trackside.contracts.model_facts import LossFacts

        assert LossFacts("CrossEntropyLoss_output_0", "CrossEntropyLoss", input_from="softmax").has_softmax_twice
        assert not LossFacts("CrossEntropyLoss_output_0", "CrossEntropyLoss", input_from="linear").has_softmax_twice
        assert not LossFacts("NLLLoss_output_0", "NLLLoss", input_from="log_softmax").has_softmax_twice
        ```

    References:
        - PyTorch, `torch.nn.CrossEntropyLoss`: "the input is expected to contain the unnormalized logits".
        - TheDeepChecker (TOSEM 2022): redundant softmax among its planted faults.
    """

    rule_id = "double-softmax"
    code = "TS201"
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.DOUBLE_SOFTMAX,)
    shows_its_cause = True
    what_to_do = (
        "Give the loss the output of the last linear layer: drop the softmax from the model.",
        "Where probabilities are wanted elsewhere, compute them outside of the training step.",
    )

    start_step: int = parameter(0, "step from which on it may fire", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per loss."""
        facts = window.facts
        if facts is None or window.step < max(self.start_step, facts.from_step):
            return []
        return [self._finding(window, loss) for loss in facts.losses if loss.has_softmax_twice]

    def _finding(self, window: Window, loss: LossFacts) -> Finding:
        return finding_of(
            window,
            loss.name,
            f"{loss.input_from} before {loss.type_name}, times",
            1.0,
            above=0.0,
            since=min(window.step, window.facts.from_step if window.facts else 0),
            place=loss.line,
        )
