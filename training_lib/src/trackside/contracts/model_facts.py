"""Facts about a training program: modules, parameters, optimizers, losses, settings.

The rules compare them with their measurements. records/model_facts.py reads and writes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trackside.contracts.cached_property import cached_property
from trackside.contracts.observations import Observation

# The purpose of a module, by its type; "" for anything else.
ROLES = (
    "activation", "normalization", "dropout", "embedding", "convolution", "linear", "recurrent", "attention", "pooling",
    "loss", "container",
)  # fmt: skip
# Families of activations that fail in the same way. Below zero "relu" passes neither values nor gradients,
# "leaky_relu" a little of both.
ACTIVATIONS = ("relu", "leaky_relu", "tanh", "sigmoid", "softmax", "log_softmax", "gelu", "silu", "other")


@dataclass(frozen=True)
class ModuleFacts:
    """One module of a trained model.

    name          prefix of its tensors: `<name>_output_0`; the root module goes by its class
    type_name     its class
    role          one of `ROLES`, or ""
    activation    one of `ACTIVATIONS` if the role is "activation", else ""
    is_training   its train/eval flag when an optimizer stepped
    in_features, out_features   as the module declares them (channels of a convolution, rows and width of an embedding);
                  or None
    line          "train.py:41", the line that created it; "" if unknown
    observed      what detectors saw of it, without what is as by default: `contracts/observations.py` has them all
    """

    name: str
    type_name: str
    role: str = ""
    activation: str = ""
    is_training: bool = True
    in_features: int | None = None
    out_features: int | None = None
    line: str = ""
    observed: Mapping[Observation[Any], Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class ParameterFacts:
    """One parameter of a trained model.

    name           its name as a tensor; its gradient is `gradient/<name>`
    module         the name of the module that holds it, as in `ModuleFacts.name`; "" if none does
    shape, dtype   of the whole parameter, even if sharded; "float32"
    requires_grad  its flag when the optimizer that holds it stepped
    optimizer      the optimizer's name, as in `hyperparameters/<optimizer>/group_0/lr`; "" if none holds it
    group          its parameter group in that optimizer; 0 without an optimizer
    tied_to        the parameter of which this is a second name; a second name is never saved by itself
    is_sharded     the worker holds only a part of it
    units_last     its last axis counts the units, as in Keras; the first one as in PyTorch otherwise
    observed       what detectors saw of it, without what is as by default: `contracts/observations.py` has them all
    """

    name: str
    module: str
    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool = True
    optimizer: str = ""
    group: int = 0
    tied_to: str = ""
    is_sharded: bool = False
    units_last: bool = False
    observed: Mapping[Observation[Any], Any] = field(default_factory=dict, hash=False)

    @property
    def gradient(self) -> str:
        """The name of its gradient."""
        return f"gradient/{self.name}"

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def fan_in(self) -> int:
        """The number of inputs of a unit; the number of elements for a vector, which has no inputs."""
        units = self.shape[-1 if self.units_last else 0] if len(self.shape) > 1 else 1
        return self.size // max(1, units)


@dataclass(frozen=True)
class OptimizerFacts:
    """One optimizer.

    name             as in `hyperparameters/<name>/group_0/lr`
    type_name        its class
    line             the line that created it; "" if unknown
    groups           numbers and flags of each parameter group at first sight (true is 1.0; `betas` are `betas_0` and
                     `betas_1`); `lr` is that of the first step
    parameter_count  number of its tensors
    observed         what detectors saw of it, without what is as by default: `contracts/observations.py` has them all
    """

    name: str
    type_name: str
    line: str = ""
    groups: tuple[Mapping[str, float], ...] = ()
    parameter_count: int = 0
    observed: Mapping[Observation[Any], Any] = field(default_factory=dict, hash=False)

    def hyperparameter(self, key: str, *, group: int = 0) -> float | None:
        """Return a number of a parameter group, or None if it has none of that name.

        Args:
            key: Name of the hyperparameter: "lr", "betas_0".
            group: Number of the parameter group, from 0.
        """
        return self.groups[group].get(key) if group < len(self.groups) else None


@dataclass(frozen=True)
class LossFacts:
    """A scalar that `backward` was called on.

    name           of its tensor: `CrossEntropyLoss_output_0`; "" for a loss of which no value is known
    type_name      torch's class for the same loss; "" for a loss written by hand or a sum of several
    reduction      "mean", "sum", "none" (reduced by hand), or "" if unknown
    scale          its factor before `backward` (accumulation, AMP); negative: it is maximised
    input_from     source of its predictions: one of `ACTIVATIONS`, "linear", "other"; "" if unknown
    input_shape    shape of its predictions; () if unknown
    class_count    number of classes; None if it is no classification
    line           the line that computed it; "" if unknown
    backward_line  the line that called `backward` on it; "" if unknown
    is_weighted    it has weights of classes or samples (`weight`, `pos_weight`)
    classes        number of samples of each class in the whole training set, where that is at hand; () if unknown
    observed       what detectors saw of it, without what is as by default: `contracts/observations.py` has them all
    """

    name: str
    type_name: str = ""
    reduction: str = ""
    scale: float = 1.0
    input_from: str = ""
    input_shape: tuple[int, ...] = ()
    class_count: int | None = None
    line: str = ""
    backward_line: str = ""
    is_weighted: bool = False
    classes: tuple[int, ...] = ()
    observed: Mapping[Observation[Any], Any] = field(default_factory=dict, hash=False)

    @property
    def is_built_in(self) -> bool:
        """True for a loss function of the framework."""
        return bool(self.type_name)

    @property
    def has_softmax_twice(self) -> bool:
        """True if the loss applies a softmax to inputs that are probabilities already."""
        return self.type_name == "CrossEntropyLoss" and self.input_from in {"softmax", "log_softmax", "sigmoid"}


BOOSTED = frozenset({"xgboost", "lightgbm", "catboost"})  # frameworks with trees and no network
ESTIMATORS = frozenset({"scikit-learn"})  # nothing of a network is seen
LOG = "log"  # in place of a framework: the run is a log of another tool, with steps between its rows


@dataclass(frozen=True)
class ProgramFacts:
    """Facts about the whole program.

    script            the script's path at the start; "" in a notebook
    framework, framework_version   "pytorch", "2.13.0"
    autocast_dtype    "float16" or "bfloat16", the type of mixed precision; "" without
    has_grad_scaler   a GradScaler steps the optimizer
    world_size        number of ranks
    is_compiled       torch.compile is in use
    data_parallel     "DDP", "FSDP1", "FSDP2", "DataParallel" or ""
    resumed_at        step of the run at which this process began; 0 for the first process of the run
    observed          what detectors saw of it, without what is as by default: `contracts/observations.py` has them all
    """

    script: str = ""
    framework: str = ""
    framework_version: str = ""
    autocast_dtype: str = ""
    has_grad_scaler: bool = False
    world_size: int = 1
    is_compiled: bool = False
    data_parallel: str = ""
    resumed_at: int = 0
    observed: Mapping[Observation[Any], Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class ModelFacts:
    """The facts about a training program from `from_step` until the next revision."""

    from_step: int = 0
    modules: tuple[ModuleFacts, ...] = ()
    parameters: tuple[ParameterFacts, ...] = ()
    optimizers: tuple[OptimizerFacts, ...] = ()
    losses: tuple[LossFacts, ...] = ()
    program: ProgramFacts = field(default_factory=ProgramFacts)

    def module(self, name: str) -> ModuleFacts | None:
        """Return the module of that name, or None.

        Args:
            name: As in `ModuleFacts.name`.
        """
        return self._modules.get(name)

    def parameter(self, name: str) -> ParameterFacts | None:
        """Return the parameter of that name, or None.

        Args:
            name: Its own name, or the name of its gradient.
        """
        return self._parameters.get(name.removeprefix("gradient/"))

    def optimizer(self, name: str) -> OptimizerFacts | None:
        """Return the optimizer of that name, or None.

        Args:
            name: As in `OptimizerFacts.name`.
        """
        return next((optimizer for optimizer in self.optimizers if optimizer.name == name), None)

    def loss(self, name: str) -> LossFacts | None:
        """Return the loss with that tensor, or None.

        Args:
            name: Name of the tensor: `CrossEntropyLoss_output_2`. If that loss has no facts of its own, those of
                `CrossEntropyLoss_output_0` are returned.
        """
        found = {loss.name: loss for loss in self.losses}
        return found.get(name) or found.get(f"{name.rpartition('_')[0]}_0")

    def module_of(self, tensor: str) -> ModuleFacts | None:
        """Return the module that a tensor belongs to, or None.

        Args:
            tensor: Name of a parameter, gradient, input or output.
        """
        parameter = self.parameter(tensor)
        if parameter is not None:
            return self.module(parameter.module)
        name = tensor.removeprefix("activation_gradient/")
        for side in ("_output_", "_input_"):
            before, found, number = name.rpartition(side)
            if found and number.isdigit():
                return self.module(before)
        layer, _, side = name.rpartition("/")  # of Keras: `dense/outputs`, `dense/outputs_1`
        return self.module(layer) if side.partition("_")[0] in ("inputs", "outputs") else None

    @property
    def is_of_trees(self) -> bool:
        """True for a model of trees: a step is a round, which reads all rows, and inputs need no scale."""
        framework = self.program.framework
        return framework in BOOSTED or (framework in ESTIMATORS and not self.modules)

    @property
    def is_of_fits(self) -> bool:
        """True for an estimator that shows no loss: its steps are samples of the rows that one `fit` was given."""
        return self.program.framework in ESTIMATORS and not any(loss.name for loss in self.losses)

    @property
    def is_of_log(self) -> bool:
        """True for a log of another tool: nothing is known of the steps between its rows."""
        return self.program.framework == LOG

    @cached_property
    def _modules(self) -> dict[str, ModuleFacts]:
        return {module.name: module for module in self.modules}

    @cached_property
    def _parameters(self) -> dict[str, ParameterFacts]:
        return {parameter.name: parameter for parameter in self.parameters}


Revisions = tuple[ModelFacts, ...]


def at_step(revisions: Sequence[ModelFacts], step: int) -> ModelFacts | None:
    """Return the revision that holds at a step, or None if `revisions` is empty.

    It is the newest from `step` or before. Before the first revision it is the first: a model exists before its facts.

    Args:
        revisions: Facts in the order of their steps.
        step: The step.
    """
    earlier = [facts for facts in revisions if facts.from_step <= step]
    return earlier[-1] if earlier else next(iter(revisions), None)
