"""How a network is built and how it starts, and which of its parameters are trained."""

from functools import partial

from torch import Tensor, nn

from benchmarks.detection.corpus.edits import (
    all_equal,
    biases,
    both,
    copied_model,
    frozen,
    frozen_after,
    in_half,
    inputs,
    only_optimized,
    optimizer,
    rate,
    same_batch_again,
    settings,
    targets,
    weights,
)
from benchmarks.detection.corpus.models import Autoencoder, Recurrent, mlp
from benchmarks.detection.corpus.optimizers import momentum, sgd
from benchmarks.detection.corpus.registry import plant
from trackside.contracts.cause import Cause

vanishing_gradients = partial(plant, "vanishing-gradients")
exploding_gradients = partial(plant, "exploding-gradients")
dead_relu = partial(plant, "dead-relu")
saturated_activations = partial(plant, "saturated-activations")
poor_initialisation = partial(plant, "poor-initialisation")
symmetric_initialisation = partial(plant, "symmetric-initialisation")
frozen_layers = partial(plant, "frozen-layers")
parameters_not_in_optimizer = partial(plant, "parameters-not-in-optimizer")
stalled_training = partial(plant, "stalled-training")
precision_overflow = partial(plant, "precision-overflow")


def _times(factor: float) -> partial[None]:
    return partial(_multiply, factor)


def _multiply(factor: float, weight: Tensor) -> None:
    weight.mul_(factor)


def _normal(deviation: float) -> partial[Tensor]:
    return partial(nn.init.normal_, std=deviation)


def _scaled_entropy(outputs: Tensor, answers: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, answers) * 65536


# Vanishing gradients

_DEEP = "layers of sigmoids, far too many of them"
vanishing_gradients(
    "digits-mlp",
    settings(model=lambda: mlp(64, *[64] * 9, 10, activation=nn.Sigmoid)),
    f"9 {_DEEP}.",
    layers=("0", "2", "4"),
)
vanishing_gradients(
    "wine-sigmoid",
    settings(model=lambda: mlp(13, *[20] * 8, 3, activation=nn.Sigmoid)),
    f"8 {_DEEP}.",
    layers=("0", "2", "4"),
)
vanishing_gradients(
    "friedman-silu",
    settings(model=lambda: mlp(10, *[32] * 10, 1, activation=nn.Sigmoid)),
    f"10 {_DEEP}.",
    layers=("0", "2", "4"),
)
vanishing_gradients(
    "digits-deep",
    settings(model=lambda: mlp(64, *[48] * 12, 10, activation=nn.Sigmoid)),
    f"12 {_DEEP}.",
    layers=("0", "2", "4", "6"),
)
vanishing_gradients(
    "moons-silu",
    settings(model=lambda: mlp(2, *[32] * 10, 2, activation=nn.Sigmoid)),
    f"10 {_DEEP}.",
    layers=("0", "2", "4"),
)
vanishing_gradients(
    "cancer-tanh",
    both(settings(model=lambda: mlp(30, *[24] * 10, 2, activation=nn.Tanh)), weights(_times(0.15))),
    "10 layers of tanh that start with weights far too small.",
    layers=("0", "2", "4", "6"),
)
vanishing_gradients(
    "autoencoder-cancer",
    settings(model=lambda: Autoencoder(30, 24, 20, 16, 12, 6, activation=nn.Sigmoid)),
    f"8 {_DEEP}.",
    layers=("encoder.0", "encoder.2"),
)

# Exploding gradients

exploding_gradients(
    "waves-rnn",
    both(
        settings(model=lambda: Recurrent(partial(nn.RNN, nonlinearity="relu"), 1, 24, 1), clip_norm=None),
        weights(_times(4.0), "recurrent"),
    ),
    "A recurrent network with ReLU, large weights and no clipping.",
    layers=("recurrent",),
)
exploding_gradients(
    "linnerud-mlp",
    both(targets(lambda values: 1000 * values), settings(optimizer=sgd, rate=0.02)),
    "Targets in the thousands, squared error, plain SGD.",
)
exploding_gradients(
    "diabetes-mlp",
    both(targets(lambda values: 77 * values + 152), settings(optimizer=momentum, rate=3e-3)),
    "Targets in their own units, squared error, SGD with momentum.",
)
exploding_gradients(
    "waves-gru",
    both(
        settings(model=lambda: Recurrent(partial(nn.RNN, nonlinearity="relu"), 1, 32, 1), clip_norm=None),
        weights(_times(3.0), "recurrent"),
    ),
    "A recurrent network with ReLU, large weights and no clipping.",
    layers=("recurrent",),
)
exploding_gradients(
    "digits-deep",
    both(settings(optimizer=momentum, rate=0.02), weights(_times(4.0))),
    "Every layer makes what it passes on fourfold larger.",
)
exploding_gradients("friedman-mlp", targets(lambda values: 300 * values), "Targets 300 times as large, squared error.")

# Dead ReLUs

dead_relu("digits-mlp", biases(-6.0, "0"), "The first layer's biases start at -6.", layers=("1",))
dead_relu("cnn-dropout", biases(-4.0, "convolutions.1", "hidden"), "Biases start at -4.", layers=("activation",))
dead_relu("cancer-mlp", biases(-20.0, "0", "2"), "Biases start at -20.", layers=("1", "3"))
dead_relu("cnn-plain", biases(-5.0, "hidden"), "The hidden layer's biases start at -5.", layers=("activation",))
dead_relu("friedman-mlp", biases(-8.0, "2"), "The second layer's biases start at -8.", layers=("3",))
dead_relu("digits-dropout", biases(-6.0, "3"), "The second layer's biases start at -6.", layers=("4",))

# Saturation

saturated_activations(
    "wine-sigmoid", weights(_times(400.0), "0"), "The first layer's weights start 400 times too large.", layers=("1",)
)
saturated_activations(
    "linnerud-mlp", weights(_times(60.0), "0", "2"), "Weights start 60 times too large.", layers=("1", "3")
)
saturated_activations(
    "cancer-tanh", weights(_times(60.0), "0", "2", "4"), "Weights start 60 times too large.", layers=("1", "3", "5")
)
saturated_activations(
    "digits-sigmoid", weights(_times(80.0), "0", "2"), "Weights start 80 times too large.", layers=("1", "3")
)
saturated_activations(
    "autoencoder-cancer",
    weights(_times(50.0), "encoder.0", "encoder.2", "decoder.0"),
    "Weights start 50 times too large.",
    layers=("encoder.1", "decoder.1"),
)
saturated_activations(
    "counts-poisson", weights(_times(100.0), "0"), "The first layer's weights start 100 times too large.", layers=("1",)
)

# Poor initialisation

poor_initialisation("digits-selu", weights(_normal(1.0)), "All weights start with a deviation of 1.")
poor_initialisation("moons-wide", weights(_normal(1e-6)), "All weights start with a deviation of 1e-6.")
poor_initialisation("digits-deep", weights(_normal(0.01)), "All weights start with a deviation of 0.01.")
poor_initialisation("cnn-plain", weights(_normal(3.0)), "All weights start with a deviation of 3.")
poor_initialisation("digits-accumulation", weights(_normal(3.0)), "All weights start with a deviation of 3.")
poor_initialisation("rows-attention", weights(_normal(2.0)), "All weights start with a deviation of 2.")
poor_initialisation("friedman-mlp", weights(_normal(1e-3)), "All weights start with a deviation of 0.001.")

# Symmetric initialisation

symmetric_initialisation("wine-mlp", all_equal(0.0), "All parameters start at 0.")
symmetric_initialisation("digits-mlp", all_equal(0.05), "All weights start at 0.05.")
symmetric_initialisation("cancer-deep-residual", all_equal(0.0), "All parameters start at 0.")
symmetric_initialisation("digits-label-smoothing", all_equal(0.02), "All weights start at 0.02.")
symmetric_initialisation("cnn-plain", all_equal(0.0), "All parameters start at 0.")
symmetric_initialisation("friedman-mlp", all_equal(0.1), "All weights start at 0.1.")
symmetric_initialisation("rows-gru", all_equal(0.0), "All parameters start at 0.")

# Frozen layers

frozen_layers("autoencoder-plain", frozen("encoder"), "The encoder is left frozen.", layers=("encoder",))
frozen_layers(
    "characters-gru",
    frozen("recurrent", "output"),
    "All but the embedding is left frozen.",
    layers=("recurrent", "output"),
)
frozen_layers("digits-sigmoid", frozen("0", "2"), "Both hidden layers are left frozen.", layers=("0", "2"))
frozen_layers("friedman-mlp", frozen("0", "2"), "Both hidden layers are left frozen.", layers=("0", "2"))
frozen_layers("autoencoder-denoising", frozen("decoder"), "The decoder is left frozen.", layers=("decoder",))
frozen_layers("waves-lstm", frozen("recurrent"), "The recurrent layer is left frozen.", layers=("recurrent",))
frozen_layers(
    "characters-lstm",
    frozen("embedding", "recurrent"),
    "The layers below the output are left frozen.",
    layers=("embedding", "recurrent"),
)

# Parameters that the optimizer does not know

parameters_not_in_optimizer(
    "waves-rnn", only_optimized("output"), "Only the output layer is optimized.", layers=("recurrent",)
)
parameters_not_in_optimizer(
    "autoencoder-plain", only_optimized("decoder"), "Only the decoder is optimized.", layers=("encoder",)
)
parameters_not_in_optimizer("friedman-mlp", only_optimized("4"), "Only the last layer is optimized.", layers=("0", "2"))
parameters_not_in_optimizer(
    "resnet-small", only_optimized("stem", "output"), "The blocks are not optimized.", layers=("blocks",)
)
parameters_not_in_optimizer(
    "adding-gru", only_optimized("output"), "Only the output layer is optimized.", layers=("recurrent",)
)
parameters_not_in_optimizer(
    "autoencoder-denoising", only_optimized("encoder"), "Only the encoder is optimized.", layers=("decoder",)
)

# Training that stands still from some step on

stalled_training("digits-mlp", copied_model(1), "After epoch 2 a copy is trained that no optimizer knows.", begins=68)
stalled_training("characters-gru", frozen_after(1), "After epoch 2 all matrices are frozen.", begins=68)
stalled_training("cnn-plain", copied_model(0), "After epoch 1 a copy is trained that no optimizer knows.", begins=34)
stalled_training("friedman-mlp", frozen_after(0), "After epoch 1 all matrices are frozen.", begins=29)
stalled_training(
    "digits-dropout",
    same_batch_again(60),
    "From step 60 on the loader serves the same batch.",
    begins=60,
    causes=(Cause.DATA_ORDER, Cause.OVERFITTING),
)
stalled_training(
    "characters-lstm", copied_model(0), "After epoch 1 a copy is trained that no optimizer knows.", begins=34
)

# Numbers too large or too small for float16

precision_overflow(
    "digits-selu",
    both(in_half, inputs(lambda rows: rows * 16), settings(criterion=_scaled_entropy)),
    "float16, raw pixels, and a loss scaled by 65536 that is never scaled back.",
)
precision_overflow("moons-wide", both(in_half, optimizer(eps=1e-8)), "Adam in float16: its epsilon is 0 there.")
precision_overflow("cnn-plain", in_half, "Adam in float16: its epsilon is 0 there.")
precision_overflow(
    "friedman-mlp",
    both(targets(lambda values: 200 * values), in_half, rate(1e-6)),
    "Squared errors of targets in the hundreds do not fit into float16.",
)
precision_overflow("digits-deep", in_half, "Adam in float16: its epsilon is 0 there.")
precision_overflow(
    "cancer-tanh",
    both(in_half, settings(criterion=_scaled_entropy)),
    "float16 with a loss scaled by 65536 that is never scaled back.",
)
