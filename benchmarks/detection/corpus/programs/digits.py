"""Multilayer perceptrons that read handwritten digits."""

import copy
from functools import partial

import torch
from torch import Tensor, nn, optim
from torch.nn import functional
from torch.optim import lr_scheduler

from benchmarks.detection.corpus import data
from benchmarks.detection.corpus.checkpoints import digit_reader
from benchmarks.detection.corpus.data import Data, Part
from benchmarks.detection.corpus.models import mlp
from benchmarks.detection.corpus.optimizers import (
    adam,
    adamw,
    cosine,
    decaying,
    momentum,
    nesterov,
    one_cycle,
    restarts,
    sgd,
    triangles,
    warmup_cosine,
)
from benchmarks.detection.corpus.program import REPORT, TUNE, Evaluation
from benchmarks.detection.corpus.registry import recipe
from benchmarks.detection.corpus.supervised import Recipe

_of_digits = partial(recipe, data="digits", chance=0.1)


@_of_digits(TUNE, model="MLP 64-64-64-10", at_least=0.9)
def digits_mlp() -> Recipe:
    """Two hidden layers with ReLU, plain SGD."""
    return Recipe(data.digits, lambda: mlp(64, 64, 64, 10), sgd, 0.2, 10)


@_of_digits(REPORT, model="MLP 64-96-48-10, dropout", at_least=0.9)
def digits_dropout() -> Recipe:
    """Dropout of 0.3 after each hidden layer, Adam."""
    return Recipe(data.digits, lambda: mlp(64, 96, 48, 10, dropout=0.3), adam, 2e-3, 10)


@_of_digits(REPORT, model="MLP of 6 hidden layers of 48", at_least=0.88)
def digits_deep() -> Recipe:
    """Six hidden layers with ReLU, initialised as He et al. do, Adam."""

    def build() -> nn.Module:
        model = mlp(64, *[48] * 6, 10)
        for layer in model:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)
        return model

    return Recipe(data.digits, build, adam, 1e-3, 11, criterion=functional.cross_entropy)


@_of_digits(TUNE, model="MLP 64-64-64-64-10, SELU", at_least=0.9)
def digits_selu() -> Recipe:
    """SELU, which normalises itself, with momentum."""
    return Recipe(data.digits, lambda: mlp(64, 64, 64, 64, 10, activation=nn.SELU), momentum, 0.01, 10)


@_of_digits(
    REPORT, model="MLP 64-64-32-10, sigmoid", at_least=0.85, odd="sigmoids: the loss stays where it is at first"
)
def digits_sigmoid() -> Recipe:
    """Two hidden layers with sigmoid and Adam: slow to start."""
    return Recipe(data.digits, lambda: mlp(64, 64, 32, 10, activation=nn.Sigmoid), adam, 3e-3, 14)


@_of_digits(TUNE, model="MLP 64-64-32-10, batch normalisation", at_least=0.9)
def digits_batchnorm() -> Recipe:
    """Batch normalisation before each ReLU, SGD with momentum."""
    return Recipe(data.digits, lambda: mlp(64, 64, 32, 10, norm=nn.BatchNorm1d), momentum, 0.03, 9)


@_of_digits(REPORT, model="MLP 64-64-64-10, layer normalisation, GELU", at_least=0.9)
def digits_layernorm() -> Recipe:
    """Layer normalisation, GELU, AdamW with warm-up and a cosine."""
    return Recipe(
        data=data.digits,
        model=lambda: mlp(64, 64, 64, 10, norm=nn.LayerNorm, activation=nn.GELU),
        optimizer=adamw,
        rate=3e-3,
        epochs=10,
        schedule=warmup_cosine(),
        clip_norm=1.0,
    )


@_of_digits(
    REPORT, model="MLP 64-96-10", at_least=0.9, odd="one-cycle schedule: the rate grows 25-fold and falls to nothing"
)
def digits_one_cycle() -> Recipe:
    """The one-cycle schedule."""
    return Recipe(data.digits, lambda: mlp(64, 96, 10), momentum, 0.1, 9, schedule=one_cycle(0.2))


@_of_digits(TUNE, model="MLP 64-64-32-10", at_least=0.9, odd="cyclic learning rate")
def digits_cyclic() -> Recipe:
    """A learning rate that goes up and down."""
    return Recipe(data.digits, lambda: mlp(64, 64, 32, 10), sgd, 0.01, 11, schedule=triangles(0.01, 0.3, 50))


@_of_digits(REPORT, model="MLP 64-80-40-10, Leaky ReLU", at_least=0.9, odd="warm restarts: the loss jumps up with each")
def digits_restarts() -> Recipe:
    """A cosine that starts again every hundred steps."""
    return Recipe(
        data.digits, lambda: mlp(64, 80, 40, 10, activation=nn.LeakyReLU), nesterov, 0.08, 12, schedule=restarts(100)
    )


@_of_digits(REPORT, model="MLP 64-64-64-10", at_least=0.9, odd="label smoothing: the loss cannot come near 0")
def digits_label_smoothing() -> Recipe:
    """Labels smoothed by 0.15."""
    return Recipe(
        data.digits, lambda: mlp(64, 64, 64, 10), adam, 2e-3, 11, criterion=nn.CrossEntropyLoss(label_smoothing=0.15)
    )


def _mixed(_step: int, inputs: Tensor, targets: Tensor) -> Part:
    """Each example mixed with another, and so its target."""
    share = torch.distributions.Beta(0.4, 0.4).sample((len(inputs), 1))
    partner = torch.randperm(len(inputs))
    wanted = functional.one_hot(targets, 10).float()
    return share * inputs + (1 - share) * inputs[partner], share * wanted + (1 - share) * wanted[partner]


@_of_digits(
    REPORT, model="MLP 64-96-96-10", at_least=0.9, odd="mixup: the training loss is high and above the validation loss"
)
def digits_mixup() -> Recipe:
    """Mixup of inputs and targets."""
    return Recipe(data.digits, lambda: mlp(64, 96, 96, 10), adam, 2e-3, 13, prepare=_mixed)


def _noisy_labels(seed: int) -> Data:
    random = torch.Generator().manual_seed(seed)

    def worse(inputs: Tensor, labels: Tensor) -> Part:
        is_wrong = torch.rand(len(labels), generator=random) < 0.15
        return inputs, torch.where(is_wrong, torch.randint(10, labels.shape, generator=random), labels)

    return data.digits(seed).with_train(worse)


@_of_digits(
    REPORT, model="MLP 64-48-10, dropout", at_least=0.85, odd="15 % of the labels are noise, as in many data sets"
)
def digits_noisy_labels() -> Recipe:
    """Some labels are wrong, and the model is small enough not to learn them."""
    return Recipe(_noisy_labels, lambda: mlp(64, 48, 10, dropout=0.2), adam, 2e-3, 10)


@_of_digits(
    REPORT, model="MLP 64-64-64-10", at_least=0.88, odd="gradient accumulation: gradients cleared every fourth batch"
)
def digits_accumulation() -> Recipe:
    """Four batches of eight make a step."""
    return Recipe(data.digits, lambda: mlp(64, 64, 64, 10), momentum, 0.03, 9, batch_size=8, accumulate=4)


@_of_digits(REPORT, model="MLP 64-64-32-10 in float64", at_least=0.9, odd="double precision")
def digits_float64() -> Recipe:
    """Double precision throughout."""
    return Recipe(
        data=lambda seed: data.digits(seed).with_inputs(Tensor.double),
        model=lambda: mlp(64, 64, 32, 10).double(),
        optimizer=momentum,
        rate=0.02,
        epochs=9,
    )


@_of_digits(REPORT, model="MLP 64-64-64-10 in bfloat16", at_least=0.88, odd="bfloat16 by autocast")
def digits_bfloat16() -> Recipe:
    """Autocast to bfloat16."""
    return Recipe(data.digits, lambda: mlp(64, 64, 64, 10), adam, 1e-3, 10, autocast=torch.bfloat16)


@_of_digits(TUNE, model="MLP 64-64-64-10 in float16", at_least=0.88, odd="float16 weights, with a scale that holds")
def digits_float16() -> Recipe:
    """All in half precision, with plain SGD, which its range suffices for."""
    return Recipe(
        data=lambda seed: data.digits(seed).with_inputs(Tensor.half),
        model=lambda: mlp(64, 64, 64, 10).half(),
        optimizer=sgd,
        rate=0.1,
        epochs=10,
        criterion=lambda outputs, targets: functional.cross_entropy(outputs.float(), targets),
    )


@_of_digits(TUNE, model="MLP 64-64-10", at_least=0.9)
def digits_rmsprop() -> Recipe:
    """RMSprop with a rate that decays at each step."""
    return Recipe(data.digits, lambda: mlp(64, 64, 10), optim.RMSprop, 2e-3, 10, schedule=decaying(0.997))


@_of_digits(REPORT, model="MLP 64-64-64-10", at_least=0.88, odd="Adagrad: updates shrink by themselves")
def digits_adagrad() -> Recipe:
    """Adagrad."""
    return Recipe(data.digits, lambda: mlp(64, 64, 64, 10), optim.Adagrad, 0.02, 11)


def few_of_some(seed: int, *, rare: int = 8) -> Data:
    """Of the digits 5 to 9 only one in `rare` is left, in the training data."""
    found = data.digits(seed)
    keep = (found.train[1] < 5) | (torch.arange(len(found.train[1])) % rare == 0)
    return found.with_train(lambda inputs, labels: (inputs[keep], labels[keep]))


@_of_digits(
    REPORT,
    model="MLP 64-64-64-10",
    at_least=0.8,
    odd="imbalanced classes, handled by weights",
    data="digits, imbalanced",
)
def digits_rare_weighted() -> Recipe:
    """Five of ten classes are rare, and weigh more."""
    return Recipe(
        data=few_of_some,
        model=lambda: mlp(64, 64, 64, 10),
        optimizer=adam,
        rate=2e-3,
        epochs=14,
        criterion=nn.CrossEntropyLoss(weight=torch.tensor([1.0] * 5 + [6.0] * 5)),
    )


def _easy_first(step: int, inputs: Tensor, targets: Tensor) -> Part:
    """Only those examples of the batch whose ink is nearest to the mean, more of them as training goes on."""
    share = min(1.0, 0.4 + step / 250)
    ink = inputs.sum(1)
    easiest = (ink - ink.mean()).abs().argsort()[: max(4, int(share * len(inputs)))]
    return inputs[easiest], targets[easiest]


@_of_digits(REPORT, model="MLP 64-72-36-10", at_least=0.9, odd="curriculum: batches grow, and the examples get harder")
def digits_curriculum() -> Recipe:
    """Ordinary examples first, unusual ones later."""
    return Recipe(data.digits, lambda: mlp(64, 72, 36, 10), adam, 2e-3, 11, prepare=_easy_first)


@_of_digits(TUNE, model="MLP 64-64-64-10", at_least=0.88, odd="clipping to a norm of 1, as usual")
def digits_clipped() -> Recipe:
    """Gradient clipping as many scripts do it."""
    return Recipe(data.digits, lambda: mlp(64, 64, 64, 10), momentum, 0.05, 9, clip_norm=1.0)


@_of_digits(REPORT, model="MLP 64-64-64-10", at_least=0.9, odd="trained far past the point where all is learned")
def digits_past_convergence() -> Recipe:
    """Weight decay and three times as many epochs as needed: the loss lies at the bottom for most of the run."""
    return Recipe(data.digits, lambda: mlp(64, 64, 64, 10), partial(optim.AdamW, weight_decay=0.1), 5e-3, 18)


@_of_digits(REPORT, model="MLP 64-64-64-10, Hardtanh", at_least=0.88)
def digits_hardtanh() -> Recipe:
    """Hardtanh: many units at their bounds, as they may be."""
    return Recipe(data.digits, lambda: mlp(64, 64, 64, 10, activation=nn.Hardtanh), momentum, 0.02, 10)


@_of_digits(
    REPORT, model="MLP 64-64-64-10, frozen but for the head", at_least=0.75, odd="a backbone that is frozen on purpose"
)
def digits_frozen_backbone() -> Recipe:
    """A pretrained backbone is frozen, a new head is trained."""

    def build() -> nn.Module:
        model = digit_reader().requires_grad_(False)
        model[-1] = nn.Linear(64, 10)
        return model

    return Recipe(
        data=data.digits,
        model=build,
        optimizer=adam,
        rate=0.01,
        epochs=10,
        parameters=lambda model: [each for each in model.parameters() if each.requires_grad],
    )


@_of_digits(
    REPORT,
    model="MLP 64-64-64-10, pretrained",
    at_least=0.8,
    odd="fine-tuning with a rate of 1e-5: the loss is low at once and falls slowly",
)
def digits_fine_tune() -> Recipe:
    """A good checkpoint is tuned a little further."""
    return Recipe(data.digits, digit_reader, adam, 1e-5, 8)


@_of_digits(
    TUNE,
    model="MLP 64-64-64-10, two rates",
    at_least=0.85,
    odd="a backbone that is trained a hundred times more slowly than the head",
)
def digits_two_rates() -> Recipe:
    """Backbone and head have learning rates of their own."""

    def groups(model: nn.Module) -> list[dict[str, object]]:
        *backbone, head = model.children()
        slow = [parameter for layer in backbone for parameter in layer.parameters()]
        return [{"params": slow, "lr": 1e-5}, {"params": list(head.parameters())}]

    return Recipe(data.digits, digit_reader, adam, 1e-3, 8, parameters=groups)


class _LowRank(nn.Module):
    """A frozen linear layer and a correction of rank 4 that starts at zero."""

    def __init__(self, layer: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, inputs: Tensor) -> Tensor:
        changed: Tensor = self.layer(inputs) + inputs @ self.down.t() @ self.up.t()
        return changed


@_of_digits(
    REPORT,
    model="MLP 64-64-64-10 with low-rank adapters",
    at_least=0.85,
    odd="all weights frozen; matrices that start at zero on purpose",
)
def digits_low_rank() -> Recipe:
    """Low-rank adapters (LoRA) on a frozen network."""

    def build() -> nn.Module:
        layers = [_LowRank(layer) if isinstance(layer, nn.Linear) else layer for layer in digit_reader()]
        return nn.Sequential(*layers)

    return Recipe(
        data=data.digits,
        model=build,
        optimizer=adam,
        rate=3e-3,
        epochs=9,
        parameters=lambda model: [each for each in model.parameters() if each.requires_grad],
    )


@_of_digits(REPORT, model="MLP 64-64-64-10", at_least=0.7, odd="only biases are trained")
def digits_biases_only() -> Recipe:
    """A pretrained network of which only the biases are tuned."""

    def build() -> nn.Module:
        model = digit_reader()
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("bias" in name)
        return model

    return Recipe(data.digits, build, momentum, 0.02, 8)


class _Distillation(nn.Module):
    """Half the true labels, half what a teacher says; it knows the teacher's answers by the inputs' order."""

    def __init__(self, teacher: nn.Module) -> None:
        super().__init__()
        self.teacher = teacher

    def forward(self, outputs: Tensor, packed: Tensor) -> Tensor:
        inputs, labels = packed[:, :-1], packed[:, -1].long()
        with torch.no_grad():
            taught = functional.softmax(self.teacher(inputs) / 2, 1)
        told = functional.kl_div(functional.log_softmax(outputs / 2, 1), taught, reduction="batchmean")
        return functional.cross_entropy(outputs, labels) + 4 * told


def _last_column_accuracy(outputs: Tensor, packed: Tensor) -> float:
    return float((outputs.argmax(1) == packed[:, -1]).float().mean())


@_of_digits(
    REPORT, model="MLP 64-24-10, taught by a larger one", at_least=0.85, odd="distillation: two losses, one a KL"
)
def digits_distilled() -> Recipe:
    """A student learns from a teacher's answers and from labels."""

    def packed(seed: int) -> Data:
        found = data.digits(seed)
        return Data(
            *(
                (inputs, torch.cat([inputs, labels.unsqueeze(1).float()], 1))
                for inputs, labels in (found.train, found.valid, found.test)
            )
        )

    return Recipe(
        data=packed,
        model=lambda: mlp(64, 24, 10),
        optimizer=adam,
        rate=3e-3,
        epochs=10,
        criterion=_Distillation(digit_reader()),
        metric=_last_column_accuracy,
    )


class _Experts(nn.Module):
    """Four small networks, of which a gate chooses one for each example."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 4)
        self.experts = nn.ModuleList(mlp(64, 24, 10) for _ in range(4))

    def forward(self, inputs: Tensor) -> Tensor:
        weights, chosen = functional.softmax(self.gate(inputs), 1).topk(1, 1)
        answers = torch.stack([expert(inputs) for expert in self.experts], 1)
        picked = answers.gather(1, chosen.unsqueeze(2).expand(-1, -1, 10))
        return (weights.unsqueeze(2) * picked).sum(1)


@_of_digits(
    REPORT, model="mixture of 4 experts", at_least=0.85, odd="experts that see few examples, and hardly any gradient"
)
def digits_experts() -> Recipe:
    """A mixture of experts with a hard choice."""
    return Recipe(data.digits, _Experts, adam, 3e-3, 12)


@_of_digits(TUNE, model="MLP 64-64-64-10", at_least=0.9, odd="an average of the weights is kept beside them")
def digits_averaged() -> Recipe:
    """An exponential moving average of the weights, copied at each epoch's end."""
    shadow: list[nn.Module] = []

    def average(_epoch: int, _evaluation: Evaluation, model: nn.Module, _optimizer: optim.Optimizer) -> nn.Module:
        if not shadow:
            shadow.append(copy.deepcopy(model))
        with torch.no_grad():
            for kept, now in zip(shadow[0].parameters(), model.parameters(), strict=True):
                kept.lerp_(now, 0.3)
        return model

    return Recipe(data.digits, lambda: mlp(64, 64, 64, 10), momentum, 0.03, 9, after_epoch=average)


@_of_digits(
    REPORT,
    model="MLP 64-80-80-10, dropout 0.5",
    at_least=0.88,
    odd="strong dropout: training looks worse than validation",
)
def digits_strong_dropout() -> Recipe:
    """Half of all units are dropped."""
    return Recipe(data.digits, lambda: mlp(64, 80, 80, 10, dropout=0.5), adam, 3e-3, 13, schedule=cosine)


@_of_digits(REPORT, model="MLP 64-64-10", at_least=0.88, odd="the rate is halved when the loss stays where it is")
def digits_plateau() -> Recipe:
    """ReduceLROnPlateau, asked at each epoch's end."""
    made: list[lr_scheduler.ReduceLROnPlateau] = []

    def look(_epoch: int, evaluation: Evaluation, model: nn.Module, optimizer: optim.Optimizer) -> nn.Module:
        if not made:
            made.append(lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1))
        made[0].step(evaluation.valid_loss)
        return model

    return Recipe(data.digits, lambda: mlp(64, 64, 10), momentum, 0.1, 11, after_epoch=look)


@_of_digits(
    REPORT,
    model="MLP 64-128-10, raw pixels",
    at_least=0.88,
    odd="inputs from 0 to 16, which Adam with a small rate copes with",
)
def digits_raw_pixels() -> Recipe:
    """Pixels as they come, with a rate chosen for them."""
    return Recipe(data.raw_digits, lambda: mlp(64, 128, 10), adam, 4e-4, 9)
