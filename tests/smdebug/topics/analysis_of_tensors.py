"""What was saved, and its values."""

import sys

from smdebug import modes
from smdebug.exceptions import (
    InvalidWorker,
    ShapeUnavailableForStep,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)
from smdebug.trials import create_trial

trial = create_trial(sys.argv[1], name="mine")
print(trial.name, sorted(trial.collections()), trial.loaded_all_steps)

print("all", trial.tensor_names())
print("by expression", trial.tensor_names(regex="weight"), trial.tensor_names(regex=["^gradient", "relu"]))
for name in ("losses", "weights", "gradients", "relu"):
    print("of", name, trial.tensor_names(collection=name))
print("of an object", trial.tensor_names(collection=trial.collection("relu")))
print("of evaluation", trial.tensor_names(mode=modes.EVAL))
print("of a step", trial.tensor_names(step=1), trial.tensor_names(step=3, mode=modes.TRAIN))
print("of a step and a collection", trial.tensor_names(step=0, collection="weights"))
try:
    trial.tensor_names(regex="a", collection="losses")
except ValueError as error:
    print(error)

loss = trial.tensor("CrossEntropyLoss_output_0")
print(loss.name, loss.steps(), loss.prev_steps(7, 3), loss.prev_steps(2))
for step in loss.steps()[:3]:
    value = loss.value(step)
    print(step, value, value.dtype, value.shape)
print("values", {step: float(value) for step, value in loss.values(mode=modes.EVAL).items()})

weight = trial.tensor("Net_fc.weight")
print(weight.steps(), weight.shape(2), weight.value(2).tolist())
for reduction in ("min", "max", "mean", "std", "variance", "sum", "prod"):
    print(reduction, weight.reduction_value(2, reduction), weight.reduction_value(2, reduction, abs=True))
relu = trial.tensor("relu_output_0")
print("norms", relu.reduction_value(0, "l1"), relu.reduction_value(0, "l2"))

large = trial.tensor("Net_large.weight")
print("saved", large.reduction_values(2), large.reduction_value(2, "max", abs=True))
print("named", trial.has_tensor("Net_large.weight"), trial.has_tensor("none"))

for ask in (
    lambda: trial.tensor("none"),
    lambda: weight.value(1),
    lambda: weight.value(99),
    lambda: large.value(0),
    lambda: large.shape(0),
    lambda: large.reduction_value(0, "min"),
    lambda: loss.value(0, worker="nobody"),
):
    try:
        ask()
    except (TensorUnavailable, StepUnavailable, InvalidWorker) as error:
        print(type(error).__name__, error)
    except (TensorUnavailableForStep, ShapeUnavailableForStep) as error:
        print(type(error).__name__, error.tname, error.step)

some = create_trial(sys.argv[1], range_steps=(2, 5))
print("a range", some.steps(), some.tensor("CrossEntropyLoss_output_0").steps(), create_trial(sys.argv[1]) == some)
