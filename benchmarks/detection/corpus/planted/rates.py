"""Learning rates, schedules, clipping, weight decay: what an optimizer is told."""

from functools import partial

from benchmarks.detection.corpus.edits import growing_rate, optimizer, penalty, rate, rate_jump, settings
from benchmarks.detection.corpus.optimizers import by_step, decaying, one_cycle
from benchmarks.detection.corpus.registry import plant
from trackside.contracts.cause import Cause

broken_schedule = partial(plant, "broken-schedule")
wrong_weight_decay = partial(plant, "wrong-weight-decay")

for program, value in {
    "digits-mlp": 50.0,
    "wine-mlp": 5.0,
    "waves-rnn": 1.0,
    "autoencoder-plain": 0.5,
    "characters-gru": 1.0,
    "cancer-tanh": 10.0,
    "cnn-plain": 0.3,
    "friedman-mlp": 2.0,
    "topics-gru": 1.0,
    "digits-dropout": 0.5,
    "rows-attention": 0.3,
}.items():
    plant("learning-rate-too-high", program, rate(value), f"The rate is {value:g}.")

for program, value in {
    "digits-selu": 1e-6,
    "topics-sparse": 1e-5,
    "linnerud-mlp": 1e-7,
    "cancer-mlp": 1e-7,
    "cnn-decayed": 1e-6,
    "waves-lstm": 1e-6,
    "digits-layernorm": 1e-7,
    "curve-siren": 1e-7,
}.items():
    plant("learning-rate-too-low", program, rate(value), f"The rate is {value:g}.")

for program, share in {
    "digits-clipped": 1e-4,
    "wine-mlp": 1e-4,
    "cancer-tanh": 1e-4,
    "waves-gru": 1e-4,
    "cnn-decayed": 1e-4,
    "friedman-mlp": 1e-4,
}.items():
    plant("clipping-too-low", program, settings(clip_norm=share), f"Gradients are clipped to a norm of {share:g}.")

for program, decay in {
    "digits-mlp": 0.3,
    "autoencoder-plain": 0.1,
    "digits-dropout": 0.3,
    "cnn-decayed": 0.5,
    "friedman-mlp": 1.0,
    "waves-gru": 0.1,
}.items():
    wrong_weight_decay(program, optimizer(weight_decay=decay), f"A weight decay of {decay:g}.")

for program, factor in {"wine-mlp": -0.3, "friedman-mlp": -0.1, "friedman-silu": -0.1}.items():
    wrong_weight_decay(
        program,
        penalty(factor),
        "The squares of all weights are subtracted from the loss: weights grow.",
        name="weight-decay-with-wrong-sign",
        causes=(Cause.WEIGHT_DECAY_TOO_STRONG, Cause.LOSS_SIGN, Cause.EXPLODING_GRADIENTS),
    )

# What makes the rate grow is as rightly told by its being too high.
_RATE_GROWS = (Cause.LEARNING_RATE_SCHEDULE, Cause.LEARNING_RATE_TOO_HIGH)

broken_schedule("digits-mlp", settings(schedule=decaying(0.8)), "A decay meant for each epoch is applied at each step.")
broken_schedule(
    "wine-mlp", growing_rate(1.05), "A decay with the wrong exponent: 5 % more at each step.", causes=_RATE_GROWS
)
broken_schedule(
    "waves-rnn", rate_jump(300.0, since=120), "From step 120 on the rate is 300-fold.", begins=120, causes=_RATE_GROWS
)
broken_schedule("digits-one-cycle", settings(schedule=one_cycle(50.0)), "The highest rate is 50.", causes=_RATE_GROWS)
broken_schedule(
    "digits-restarts", settings(schedule=decaying(0.85)), "A decay meant for each epoch is applied at each step."
)
broken_schedule(
    "friedman-mlp", growing_rate(1.04), "A decay with the wrong exponent: 4 % more at each step.", causes=_RATE_GROWS
)
broken_schedule(
    "digits-layernorm",
    settings(schedule=by_step(lambda step, steps: max(0.0, 1 - 12 * step / steps))),
    "A linear decay that has reached 0 after a twelfth of the training.",
)
broken_schedule(
    "cnn-plain", rate_jump(200.0, since=100), "From step 100 on the rate is 200-fold.", begins=100, causes=_RATE_GROWS
)
