"""trained-target: a loss sends gradients into its own target, or into the weight of a log-probability."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.observations import OVERWRITTEN_COPIES, TRAINED_SIGNAL
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule
from trackside.trial.window import Window

_MEASURES = {
    "target": "losses with a gradient into their own target",
    "advantage": "losses with a gradient into the weight of a log-probability",
}
COPIES = "looks that found a trained copy of the model overwritten"


@dataclass(frozen=True)
class TrainedTarget(Rule):
    """A loss sends gradients into its own target, or into the weight of a log-probability.

    Why it matters:
        The target of Q-learning, r + gamma max q(s'), and the advantage of a policy, return less v(s), are numbers to
        learn from. With a gradient, the model moves the target to its prediction, and the critic is trained to make
        chosen actions look good or bad. The loss may fall nicely, and the policy learns little or the wrong thing.

    How it decides:
        In the graph of the training's loss:

        1. Target: of a difference, a squared or a Huber error, both sides have a gradient; one of them adds data to a
           share (a factor that is not trained) of one number for each row, and that comes from a layer with the other
           side's parameters, by a computation of its own: other inputs, as of the next state.
        2. Advantage: a chosen log-probability, or its ratio to an older one, is multiplied by data less the output of
           a layer of one unit that has a gradient.

        And of each optimizer, at its first steps and then at looks:

        3. Two of its parameters were alike before its first step, both get gradients, and one was overwritten since a
           step by the other, or by an average with it: a target network, or a slow twin, that is trained, too.

        Two views, models of dynamics and differential equations train both sides on purpose and are left alone: no
        data is added, no factor stands there, or their computations meet. Residual gradients (Baird) are named,
        though they are meant. An average of the model that its optimizer holds without gradients is left alone.

    Example:
        ```python
        from trackside.contracts.model_facts import LossFacts
        from trackside.contracts.observations import TRAINED_SIGNAL

        loss = LossFacts("MSELoss_output_0", observed={TRAINED_SIGNAL: "target"})
        assert TRAINED_SIGNAL.of(loss) == "target"
        ```

    References:
        - Sutton, Barto: Reinforcement learning (2018), 9.3 and 13.5: semi-gradients, and actors with critics.
        - Nikanjam et al.: Faults in deep reinforcement learning programs (ASE journal 2022).
    """

    rule_id = "trained-target"
    code = "TS235"
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses",)
    needs = ()
    paced = True
    since = "0.1"
    likely_causes = (Cause.TRAINED_TARGET,)
    shows_its_cause = True
    what_to_do = (
        "Compute the target under torch.no_grad(), by a slow copy of the model where there is one.",
        "Give the optimizer the parameters of the model alone, not those of its target network.",
        "Detach the advantage in the policy's loss, and train the critic by a loss of its own.",
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per loss, and one per optimizer with a copy that is overwritten."""
        facts = window.facts
        for loss in facts.losses if facts is not None else ():
            measure = _MEASURES.get(TRAINED_SIGNAL.of(loss))
            if measure is not None and facts is not None:
                yield finding_of(window, loss.name, measure, 1.0, above=0.0, since=facts.from_step, place=loss.line)

        for optimizer in facts.optimizers if facts is not None else ():
            if looks := OVERWRITTEN_COPIES.of(optimizer):
                yield finding_of(window, optimizer.name, COPIES, float(looks), above=0.0, since=0, place=optimizer.line)

    def lacks(self, window: Window) -> str:
        """Return a clause if the hook recorded no facts about losses."""
        if window.facts is None or not window.facts.losses:
            return "facts about the program's losses, which Trackside's hook records"
        return ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what gets a gradient."""
        lead = findings[0]
        if lead.measure == _MEASURES["target"]:
            return f"{lead.subject} has a gradient into its own target, which moves to meet the prediction."
        if lead.measure == COPIES:
            return f"{lead.subject} trains a copy of the model, too, that the script keeps overwriting by the model."
        return f"{lead.subject} trains the critic by the policy's loss: the advantage is not detached."
