"""RequiredTensors: what a rule says that it needs, of one trial and of several."""

import sys

from smdebug.exceptions import NoMoreData, StepUnavailable, TensorUnavailable
from smdebug.rules import RequiredTensors, Rule, invoke_rule
from smdebug.trials import create_trial

trial, other = create_trial(sys.argv[1], name="first"), create_trial(sys.argv[1], name="second")
required = RequiredTensors(trial, [other])
required.add("CrossEntropyLoss_output_0", steps=[0, 1])
required.add("CrossEntropyLoss_output_0", steps=[2])
required.add("weight$", steps=[0], should_match_regex=True)
required.add("relu_output_0", steps=[3], trial=other)
print(sorted(required.get_names()), required.get_names(other))
print(sorted(tensor.name for tensor in required.get()), [tensor.name for tensor in required.get(trial=other)])
print(sorted(required.get_tensor_steps("CrossEntropyLoss_output_0")), required.get_tensor_steps("relu_output_0", other))
required.clear()
print(required.get_names(), required.get_names(other))
for steps in ([1], [77]):
    required.clear()
    required.add("CrossEntropyLoss_output_0", steps)
    try:
        print(required.fetch())
    except (StepUnavailable, NoMoreData) as error:
        print(type(error).__name__, error)
try:
    required.add("none", [0])
except TensorUnavailable as error:
    print(error)


class LossDiffers(Rule):
    """Of two runs, at a step that both have."""

    def __init__(self, base_trial, other_trials):
        super().__init__(base_trial, "", other_trials)
        self.seen = []

    def set_required_tensors(self, step):
        for each in self.trials:
            self.req_tensors.add("CrossEntropyLoss_output_0", [step], trial=each)

    def invoke_at_step(self, step):
        losses = [float(t.value(step)) for each in self.trials for t in self.req_tensors.get(each)]
        self.seen.append((step, losses))
        return losses[0] != losses[1]


rule = LossDiffers(trial, [other])
invoke_rule(rule, start_step=3, end_step=6)
print(rule.seen, len(rule.trials), rule.other_trials == [other])


class NeedsWeights(Rule):
    """Steps at which they were not saved are passed over."""

    def __init__(self, base_trial):
        super().__init__(base_trial, "")
        self.seen = []

    def set_required_tensors(self, step):
        self.req_tensors.add("Net_fc.weight", [step])

    def invoke_at_step(self, step):
        self.seen.append((step, [float(tensor.value(step).mean()) for tensor in self.req_tensors.get()]))
        return False


weights = NeedsWeights(trial)
invoke_rule(weights, end_step=9)
print(weights.seen)
