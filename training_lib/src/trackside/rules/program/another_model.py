"""another-model: the model is made anew again and again, or another one is evaluated than the one that trains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.observations import MODEL_ANEW_EVERY, UNTRAINED_EVALUATIONS, UNTRAINED_LINE
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import ProgramRule
from trackside.rules.rule import parameter
from trackside.trial.window import Window

ANEW, UNTRAINED = "steps until the model is made anew", "evaluations of a model that was never trained"


@dataclass(frozen=True)
class AnotherModel(ProgramRule):
    """The model is made anew again and again, or another one is evaluated than the one that trains.

    Why it matters:
        A model that is made inside of the loop over epochs begins each of them with fresh weights. The loss falls in
        each, and at the end one epoch is learned. An evaluation that makes a model of its own measures fresh weights:
        its accuracy is that of a guess, however well the training goes.

    How it decides:
        1. It fires where a new optimizer with the settings of the one before trains another model with parameters of
           the same shapes, after one pass over the same data set, three times in a row, and the models before are gone.
           Folds have data sets of their own, a search has other settings, and an ensemble keeps its models.
        2. It fires where a model of the trained one's class, which no optimizer holds, is evaluated `evaluations`
           times: its weights are as an initializer draws them, and those of the trained model are so no more. A target
           that is called at each step is left alone, and nothing is said once the trained model itself is evaluated.

        Passes are those over a DataLoader, and weights on a device are not read.

    Example:
        ```python
        from trackside.contracts.model_facts import ProgramFacts
        from trackside.contracts.observations import UNTRAINED_EVALUATIONS

        assert UNTRAINED_EVALUATIONS.of(ProgramFacts(observed={UNTRAINED_EVALUATIONS: 3})) == 3
        ```

    References:
        - Humbatova et al., Taxonomy of real faults in deep learning systems (ICSE 2020): wrong model in use.
    """

    rule_id = "another-model"
    code = "TS232"
    only_of = ("pytorch",)
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.ANOTHER_MODEL,)
    shows_its_cause = True
    what_to_do = (
        "Make the model and its optimizer once, before the loop over epochs.",
        "Evaluate the model that is trained, or load its state into the one that is evaluated.",
    )

    evaluations: int = parameter(3, "evaluations of a model that was never trained", minimum=1, maximum=3)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return a finding for a model that is made anew, and one for another model that is evaluated."""
        facts = window.facts
        if facts is None:
            return
        subject = facts.modules[0].name if facts.modules else "model"
        every, count = MODEL_ANEW_EVERY.of(facts.program), UNTRAINED_EVALUATIONS.of(facts.program)
        if every:
            yield finding_of(window, subject, ANEW, float(every), above=0.0, since=0)
        if count >= self.evaluations:
            place, above = UNTRAINED_LINE.of(facts.program), self.evaluations - 1.0
            yield finding_of(window, subject, UNTRAINED, float(count), above=above, since=facts.from_step, place=place)

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what becomes of the trained model."""
        if findings[0].measure == ANEW:
            return (
                f"{findings[0].subject} is made anew every {findings[0].observed:.0f} steps: what it learned is lost."
            )
        return f"A {findings[0].subject} with fresh weights is evaluated, and not the one that trains."
