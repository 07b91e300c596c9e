"""random-evaluation: dropout is live while the model is evaluated in eval mode."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.observations import RANDOM_EVALUATIONS, RANDOM_LINE
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import ProgramRule
from trackside.rules.rule import parameter
from trackside.trial.window import Window


@dataclass(frozen=True)
class RandomEvaluation(ProgramRule):
    """Dropout is live while the model is evaluated in eval mode.

    Why it matters:
        `model.eval()` sets a flag of the modules. A function does not see it: `F.dropout(x, 0.1)` drops in every mode,
        so does `scaled_dot_product_attention(..., dropout_p=0.1)`, and so does a module in a plain Python list. The
        figures of the evaluation are those of a model with units dropped: worse, and other ones at each evaluation.

    How it decides:
        During the first evaluations in eval mode the hook observes calls of PyTorch's dropout functions.

        1. n is the number of calls of the model in which a dropout was live; it is counted to 3.
        2. It fires where n is at least `evaluations`.

        Monte-Carlo dropout is silent: dropout modules that are put into training mode again, or the same input
        evaluated twice in a row. So are models that train in eval mode, and all other random numbers (a sampled latent
        variable, noise). Programs with torch.compile are not looked at.

    Example:
        ```python
        from trackside.contracts.model_facts import ModelFacts, ProgramFacts
        from trackside.contracts.observations import RANDOM_EVALUATIONS
        from trackside.rules.program.random_evaluation import live_dropouts

        assert live_dropouts(ModelFacts(program=ProgramFacts(observed={RANDOM_EVALUATIONS: 3}))) == 3
        assert live_dropouts(ModelFacts()) == 0
        ```

    References:
        - PyTorch, `torch.nn.functional.dropout`: `training` is True by default.
        - TrainCheck (OSDI 2025), transformers-33844: dropout inside of attention, live in evaluation.
    """

    rule_id = "random-evaluation"
    code = "TS208"
    only_of = ("pytorch",)
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.RANDOM_EVALUATION,)
    shows_its_cause = True
    what_to_do = (
        "Give dropout functions the mode: F.dropout(x, p, training=self.training).",
        "Hold modules in nn.ModuleList, not in a list, so that eval() reaches them.",
    )

    evaluations: int = parameter(2, "calls of the model in eval mode with a live dropout", minimum=1, maximum=3)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for the model."""
        facts = window.facts
        if facts is None or live_dropouts(facts) < self.evaluations:
            return []
        return [
            finding_of(
                window,
                facts.modules[0].name if facts.modules else "model",
                "evaluations with a live dropout",
                float(live_dropouts(facts)),
                above=float(self.evaluations - 1),
                since=facts.from_step,
                place=RANDOM_LINE.of(facts.program),
            )
        ]


def live_dropouts(facts: ModelFacts) -> int:
    """Return the number of calls of the model in eval mode with a live dropout, counted to 3."""
    return RANDOM_EVALUATIONS.of(facts.program)
