"""Trains a small network on handwritten digits with MXNet's Gluon. An ordinary script.

    trackside run -- python examples/mxnet/train.py
    trackside run -- python examples/mxnet/train.py --fault vanishing

`--fault vanishing` plants a mistake that people make: a stack of sigmoids far too deep to carry a gradient back to its
first layers.
"""

import argparse

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", choices=["none", "vanishing"], default="none")
    arguments = parser.parse_args()

    mx.random.seed(arguments.seed)
    np.random.seed(arguments.seed)
    pixels, digits = load_digits(return_X_y=True)
    train_pixels, test_pixels, train_digits, test_digits = train_test_split(
        pixels.astype("float32") / 16, digits, test_size=0.25, random_state=arguments.seed, stratify=digits
    )
    depth, activation = (12, "sigmoid") if arguments.fault == "vanishing" else (2, "relu")
    network = gluon.nn.HybridSequential()
    for _ in range(depth):
        network.add(gluon.nn.Dense(64, activation=activation))
    network.add(gluon.nn.Dense(10))
    network.initialize(mx.init.Xavier())
    network.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(network.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
    for epoch in range(arguments.epochs):
        order = np.random.permutation(len(train_digits))
        for rows in np.array_split(order, len(order) // 32):
            batch, answers = mx.nd.array(train_pixels[rows]), mx.nd.array(train_digits[rows])
            with autograd.record():
                loss = loss_of(network(batch), answers)
            loss.backward()
            trainer.step(len(rows))
        print(f"epoch {epoch}: loss {loss.mean().asscalar():.3f}")
    right = np.mean(network(mx.nd.array(test_pixels)).asnumpy().argmax(axis=1) == test_digits)
    print(f"{right:.1%} of the test digits are right")


if __name__ == "__main__":
    main()
