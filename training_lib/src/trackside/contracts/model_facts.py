"""Facts about a training program: modules, parameters, optimizers, losses, settings.

The rules compare them with what they measure. records/model_facts.py reads and writes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

# What a module is for, as far as its type tells; "" for anything else.
ROLES = (
    "activation", "normalization", "dropout", "embedding", "convolution", "linear", "recurrent", "attention", "pooling",
    "loss", "container",
)  # fmt: skip
# Which activation: those of a family fail in the same way. "relu" passes nothing below zero and no gradient there,
# "leaky_relu" a little of both.
ACTIVATIONS = ("relu", "leaky_relu", "tanh", "sigmoid", "softmax", "log_softmax", "gelu", "silu", "other")


@dataclass(frozen=True)
class ModuleFacts:
    """One module of a trained model.

    name          as its tensors are named: `<name>_output_0`; the root goes by its class
    type_name     its class
    role          one of `ROLES`, or ""
    activation    one of `ACTIVATIONS` where the role is "activation", else ""
    is_training   its train/eval flag as an optimizer stepped
    in_features, out_features   as it says itself (channels of a convolution, rows and width of an embedding); or None
    line          "train.py:41", where it was created; "" where that is not known
    probability   of a dropout, else None
    sees_ahead    its answer at a place of a sequence depends on later places: a recurrent layer that reads both ways,
                  attention over its own input without a mask
    """

    name: str
    type_name: str
    role: str = ""
    activation: str = ""
    is_training: bool = True
    in_features: int | None = None
    out_features: int | None = None
    line: str = ""
    probability: float | None = None
    sees_ahead: bool = False


@dataclass(frozen=True)
class ParameterFacts:
    """One parameter of a trained model.

    name           as it is saved; its gradient is `gradient/<name>`
    module         the name of the module that holds it, as in `ModuleFacts.name`; "" if none does
    shape, dtype   of the whole parameter, where it is sharded too; "float32"
    requires_grad  as the optimizer that holds it stepped
    optimizer      the optimizer's word, as in `hyperparameters/<optimizer>/group_0/lr`; "" if none holds it
    group          its number there; 0 where there is no optimizer
    tied_to        the parameter that this one is another name of; such a name is never saved by itself
    is_sharded     the worker holds a part of it only
    has_gradient   it had one when it was looked at, at the end of a step
    has_equal_rows   as the first step ended, its rows were all the same: its units started alike
    looks_untrained  it is frozen or in no optimizer, and its values are as the framework's layers initialise them
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
    has_gradient: bool = False
    has_equal_rows: bool = False
    looks_untrained: bool = False

    @property
    def gradient(self) -> str:
        """The name of its gradient."""
        return f"gradient/{self.name}"

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class OptimizerFacts:
    """One optimizer: its word as in `hyperparameters/<name>/group_0/lr`, its class, and where it was created.

    `groups`: the numbers and flags of each parameter group as they first were (true is 1.0; `betas` are `betas_0` and
    `betas_1`); `lr` is that of the first step. `parameter_count`: tensors.
    """

    name: str
    type_name: str
    line: str = ""
    groups: tuple[Mapping[str, float], ...] = ()
    parameter_count: int = 0

    def hyperparameter(self, key: str, *, group: int = 0) -> float | None:
        """A number of a group; None if there is none."""
        return self.groups[group].get(key) if group < len(self.groups) else None


@dataclass(frozen=True)
class LossFacts:
    """A scalar that `backward` was called on.

    name           of its tensor: `CrossEntropyLoss_output_0`
    type_name      torch's own class of loss that computes the same, "" for one by hand or a sum of several
    reduction      "mean", "sum", "none" (reduced by hand), or "" where that is not known
    scale          what it was multiplied by before `backward` (accumulation, AMP); negative: it is maximised
    input_from     what its predictions came out of: one of `ACTIVATIONS`, "linear", "other"; "" if not known
    input_shape    of its predictions; () if not known
    class_count    how many classes it tells apart; None for what is no classification
    line           where it was computed; "" if not known
    backward_line  where `backward` was called on it; "" if not known
    is_weighted    it was given weights of classes or samples (`weight`, `pos_weight`)
    is_broadcast   n predictions met n targets as n times n: a column less a row; or k scores the number of a class
    margin         by which one distance is to be smaller than another (a triplet loss that is a mean); None for others
    lowers_likelihood   by hand, and chosen log-probabilities enter it with a plus, alone or times what is not negative
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
    is_broadcast: bool = False
    margin: float | None = None
    lowers_likelihood: bool = False

    @property
    def is_built_in(self) -> bool:
        """True for a loss function of the framework."""
        return bool(self.type_name)

    @property
    def has_softmax_twice(self) -> bool:
        """True if probabilities went where scores belong: the loss takes a softmax itself."""
        return self.type_name == "CrossEntropyLoss" and self.input_from in {"softmax", "log_softmax", "sigmoid"}


@dataclass(frozen=True)
class ClippingFacts:
    """Gradients are clipped: `kind` "norm" or "value", at most `limit`; `line` is the first call's."""

    kind: str
    limit: float
    line: str = ""


@dataclass(frozen=True)
class ProgramFacts:
    """What holds for the whole program.

    script            the script's path as it was started; "" in a notebook
    framework, framework_version   "pytorch", "2.13.0"
    autocast_dtype    "float16", "bfloat16" where mixed precision computes in it; "" where it does not
    has_grad_scaler   a GradScaler steps the optimizer
    world_size        ranks
    is_compiled       torch.compile is in use
    data_parallel     "DDP", "FSDP1", "FSDP2", "DataParallel" or ""
    training_mode_evaluations   how often a loss was taken of a model in training mode with gradients off, as an
                      evaluation does; counted to 3, and 0 where it happens at every step
    evaluation_line   "train.py:88", where the model was called for the last of them
    """

    script: str = ""
    framework: str = ""
    framework_version: str = ""
    autocast_dtype: str = ""
    has_grad_scaler: bool = False
    world_size: int = 1
    is_compiled: bool = False
    data_parallel: str = ""
    clipping: tuple[ClippingFacts, ...] = ()
    training_mode_evaluations: int = 0
    evaluation_line: str = ""


@dataclass(frozen=True)
class ModelFacts:
    """What a training program is made of, from `from_step` on until the next revision."""

    from_step: int = 0
    modules: tuple[ModuleFacts, ...] = ()
    parameters: tuple[ParameterFacts, ...] = ()
    optimizers: tuple[OptimizerFacts, ...] = ()
    losses: tuple[LossFacts, ...] = ()
    program: ProgramFacts = field(default_factory=ProgramFacts)

    def module(self, name: str) -> ModuleFacts | None:
        """The module of that name."""
        return self._modules.get(name)

    def parameter(self, name: str) -> ParameterFacts | None:
        """The parameter of that name, or the one whose gradient has that name."""
        return self._parameters.get(name.removeprefix("gradient/"))

    def optimizer(self, name: str) -> OptimizerFacts | None:
        """The optimizer of that word."""
        return next((optimizer for optimizer in self.optimizers if optimizer.name == name), None)

    def loss(self, name: str) -> LossFacts | None:
        """The loss whose tensor has that name; of the k-th in a step that was not met by itself, the first's."""
        found = {loss.name: loss for loss in self.losses}
        return found.get(name) or found.get(f"{name.rpartition('_')[0]}_0")

    def module_of(self, tensor: str) -> ModuleFacts | None:
        """The module that a parameter, gradient, input or output belongs to."""
        parameter = self.parameter(tensor)
        if parameter is not None:
            return self.module(parameter.module)
        name = tensor.removeprefix("activation_gradient/")
        for side in ("_output_", "_input_"):
            before, found, number = name.rpartition(side)
            if found and number.isdigit():
                return self.module(before)
        return None

    @cached_property
    def _modules(self) -> dict[str, ModuleFacts]:
        return {module.name: module for module in self.modules}

    @cached_property
    def _parameters(self) -> dict[str, ParameterFacts]:
        return {parameter.name: parameter for parameter in self.parameters}


Revisions = tuple[ModelFacts, ...]


def at_step(revisions: Sequence[ModelFacts], step: int) -> ModelFacts | None:
    """The newest revision from `step` or before; before the first one, the first: a model exists before its facts."""
    earlier = [facts for facts in revisions if facts.from_step <= step]
    return earlier[-1] if earlier else next(iter(revisions), None)
