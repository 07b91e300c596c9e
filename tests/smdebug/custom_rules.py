"""Custom rules as users wrote them for smdebug. Judged by the real smdebug 1.0.34, by the drop-in and by our evaluator,
so this file imports nothing of ours."""

from smdebug import modes
from smdebug.exceptions import NoMoreData, RuleEvaluationConditionMet
from smdebug.rules.rule import Rule
from smdebug.rules.rule_invoker import invoke_rule


class LargeGradients(Rule):
    """A gradient is too large."""

    def __init__(self, base_trial, threshold="10.0"):
        super().__init__(base_trial, action_str="")
        self.threshold = float(threshold)

    def set_required_tensors(self, step):
        self.req_tensors.add(name="^gradient/", steps=[step], should_match_regex=True)

    def invoke_at_step(self, step):
        for tensor in self.req_tensors.get():
            value = tensor.reduction_value(step, "mean", abs=True)
            if value > self.threshold:
                self.logger.warning("%s: mean %.1f is above %.1f", tensor.name, value, self.threshold)
                return True
        return False


class StuckLoss(Rule):
    """The loss did not move for a number of steps: the rule remembers."""

    def __init__(self, base_trial, action_str="", loss="CrossEntropyLoss_output_0", patience="2"):
        super().__init__(base_trial, action_str)
        self.loss, self.patience = loss, int(patience)
        self.before, self.same, self.seen = None, 0, []

    def set_required_tensors(self, step):
        self.req_tensors.add(name=self.loss, steps=[step])

    def invoke_at_step(self, step):
        value = float(self.base_trial.tensor(self.loss).value(step).mean())
        self.same = self.same + 1 if value == self.before else 0
        self.before = value
        self.seen.append(step)
        if self.same >= self.patience:
            self.logger.warning("seen %s", self.seen)
            return True
        return False


class WorkersDisagree(Rule):
    """Two workers hold other weights."""

    def __init__(self, base_trial, action_str, tolerance="0.5"):
        super().__init__(base_trial, action_str)
        self.tolerance = float(tolerance)

    def invoke_at_step(self, step):
        for name in self.base_trial.tensor_names(collection="weights", step=step):
            tensor = self.base_trial.tensor(name)
            first, *others = [tensor.value(step, worker=worker) for worker in sorted(tensor.workers(step))]
            if any(abs(first - other).max() > self.tolerance for other in others):
                return True
        return False


class WorseThanBefore(Rule):
    """The loss lies above that of earlier runs at the same step."""

    def __init__(self, base_trial, other_trials, margin="0.0", loss="CrossEntropyLoss_output_0"):
        super().__init__(base_trial, action_str="", other_trials=other_trials)
        self.margin, self.loss = float(margin), loss

    def set_required_tensors(self, step):
        for trial in self.trials:
            self.req_tensors.add(name=self.loss, steps=[step], trial=trial)

    def invoke_at_step(self, step):
        ours, *others = [trial.tensor(self.loss).value(step).mean() for trial in self.trials]
        return all(ours > other + self.margin for other in others)


class LargeReduction(Rule):
    """A weight of which only reductions were saved grows beyond a limit."""

    def __init__(self, base_trial, limit="4"):
        super().__init__(base_trial, action_str="")
        self.limit = float(limit)

    def invoke_at_step(self, step):
        return self.base_trial.tensor("Net_fc2.weight").reduction_value(step, "max", abs=True) > self.limit


class EvaluationLossRises(Rule):
    """The loss of the evaluation rises twice in a row; steps of training pass unseen."""

    def __init__(self, base_trial, loss="CrossEntropyLoss_output_0"):
        super().__init__(base_trial, action_str="")
        self.loss, self.values = loss, []

    def invoke_at_step(self, step):
        mode, mode_step = self.base_trial.mode_modestep(step)
        if mode != modes.EVAL:
            return False
        self.values.append(float(self.base_trial.tensor(self.loss).value(mode_step, mode=modes.EVAL).mean()))
        return len(self.values) > 2 and self.values[-3] < self.values[-2] < self.values[-1]


def fired_steps(rule):
    """All steps at which `invoke_rule` says that the rule fires, up to the end of the run."""
    fired, start = [], 0
    while True:
        try:
            invoke_rule(rule, start_step=start, raise_eval_cond=True)
        except RuleEvaluationConditionMet as met:
            fired.append(met.step)
            start = met.step + 1
        except NoMoreData:
            return fired
