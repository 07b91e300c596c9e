"""Trains a small network on handwritten digits with flax and optax. The calls of `run` pass its numbers.

    trackside run -- python examples/jax/train.py
    trackside run -- python examples/jax/train.py --fault vanishing

`--fault vanishing` plants a mistake that people make: a stack of sigmoids far too deep to carry a gradient back to its
first layers.
"""

import argparse

import jax
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import trackside

RATE = 0.05


class Network(nnx.Module):
    def __init__(self, depth, activation, rngs):
        self.hidden = nnx.List([nnx.Linear(64, 64, rngs=rngs) for _ in range(depth)])
        self.last = nnx.Linear(64, 10, rngs=rngs)
        self.activation = activation

    def __call__(self, values):
        for layer in self.hidden:
            values = self.activation(layer(values))
        return self.last(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", choices=["none", "vanishing"], default="none")
    arguments = parser.parse_args()

    pixels, digits = load_digits(return_X_y=True)
    train_pixels, test_pixels, train_digits, test_digits = train_test_split(
        pixels.astype("float32") / 16, digits, test_size=0.25, random_state=arguments.seed, stratify=digits
    )
    depth, activation = (12, nnx.sigmoid) if arguments.fault == "vanishing" else (2, nnx.relu)
    graph, parameters = nnx.split(Network(depth, activation, nnx.Rngs(arguments.seed)))
    optimizer = optax.sgd(RATE, momentum=0.9)
    state = optimizer.init(parameters)

    def loss_of(parameters, pixels, digits):
        scores = nnx.merge(graph, parameters)(pixels)
        return optax.softmax_cross_entropy_with_integer_labels(scores, digits).mean()

    def step_with_gradients(parameters, state, pixels, digits):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, pixels, digits)
        updates, state = optimizer.update(gradients, state)
        return loss, optax.apply_updates(parameters, updates), state, gradients, updates

    def step(parameters, state, pixels, digits):
        return step_with_gradients(parameters, state, pixels, digits)[:3]

    step, step_with_gradients = jax.jit(step), jax.jit(step_with_gradients)
    random = np.random.default_rng(arguments.seed)
    with trackside.JaxRun("runs/digits") as run:
        for _ in range(arguments.epochs):
            for rows in np.array_split(random.permutation(len(train_digits)), len(train_digits) // 32):
                batch = train_pixels[rows], train_digits[rows]
                if run.is_due:
                    loss, new, state, gradients, updates = step_with_gradients(parameters, state, *batch)
                    run.parameters(parameters, gradients, updates=updates, learning_rate=RATE)
                else:
                    loss, new, state = step(parameters, state, *batch)
                run.loss(loss, "cross_entropy")
                run.step()
                parameters = new
    right = np.mean(nnx.merge(graph, parameters)(test_pixels).argmax(axis=1) == test_digits)
    print(f"{right:.1%} of the test digits are right")


if __name__ == "__main__":
    main()
