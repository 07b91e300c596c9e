"""A rule of one's own, judged to the end."""

import sys

import numpy as np
from smdebug.exceptions import NoMoreData, RuleEvaluationConditionMet
from smdebug.rules import Rule, invoke_rule
from smdebug.rules.rule import Rule as SameRule
from smdebug.trials import create_trial


class GradientGrows(Rule):
    """The mean of a gradient's absolute values lies above a threshold. Parameters come as texts."""

    def __init__(self, base_trial, threshold="1.0", collection="gradients"):
        super().__init__(base_trial, action_str="")
        self.threshold, self.collection, self.seen = float(threshold), collection, []

    def set_required_tensors(self, step):
        for name in self.base_trial.tensor_names(step=step, collection=self.collection):
            self.req_tensors.add(name=name, steps=[step])

    def invoke_at_step(self, step):
        means = {tensor.name: tensor.reduction_value(step, "mean", abs=True) for tensor in self.req_tensors.get()}
        self.seen.append((step, {name: float(mean) for name, mean in means.items()}))
        return any(mean > self.threshold for mean in means.values())


class LossRises(Rule):
    """Without required tensors: it asks the trial, also for the step before."""

    def __init__(self, base_trial, action_str):
        super().__init__(base_trial, action_str)
        self.asked = []

    def invoke_at_step(self, step):
        loss = self.base_trial.tensor("CrossEntropyLoss_output_0")
        before = loss.prev_steps(step - 1, n=1)
        self.asked.append((step, before))
        return bool(before) and np.mean(loss.value(step)) > np.mean(loss.value(before[0]))


trial = create_trial(sys.argv[1])
print(Rule is SameRule)

rule = GradientGrows(trial, threshold="2.0")
print(rule.rule_name, rule.report, rule.base_trial is trial, rule.trials == [trial])
try:
    invoke_rule(rule)
except NoMoreData as end:
    print("judged to the end", end.step, end.mode.name, end.last_step)
print(rule.seen)

start, fired = 0, []
while True:
    try:
        invoke_rule(GradientGrows(trial, "2.0"), start_step=start, raise_eval_cond=True)
    except RuleEvaluationConditionMet as met:
        fired.append((met.rule_name, met.step, str(met)))
        start = met.step + 1
    except NoMoreData as end:
        print(fired, end)
        break

rising = LossRises(trial, "")
print(invoke_rule(rising, start_step=2, end_step=6), rising.asked)
try:
    print(rising.invoke(5), rising.invoke(999))
except NoMoreData as end:
    print(end)
try:
    Rule(trial, "")
except TypeError:
    print("a rule needs invoke_at_step")
