"""Trains a small network on handwritten digits. An ordinary PyTorch script: nothing in it knows of Trackside.

    python examples/digits/train.py
    python examples/digits/train.py --fault vanishing
    python examples/digits/train.py --fault vanishing --until-stopped

`--fault` plants a mistake that people make: a sigmoid stack far too deep to carry a gradient back to its first layers,
or a learning rate with a few zeros too many.
"""

import argparse
import itertools
import time

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional

WIDTH = 256
VANISHING_DEPTH = 20
EXPLODING_LEARNING_RATE = 1e4
MOST_HOURS = 2  # of a training that nobody stops


class DigitClassifier(nn.Module):
    """A multilayer perceptron: 64 pixels in, `depth` hidden layers, 10 classes out."""

    def __init__(self, depth, activation):
        super().__init__()
        widths = [64] + [WIDTH] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.output = nn.Linear(widths[-1], 10)
        self.activation = activation
        for layer in [*self.hidden, self.output]:
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")

    def forward(self, pixels):
        values = pixels
        for layer in self.hidden:
            values = self.activation(layer(values))
        return self.output(values)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=160)
    parser.add_argument(
        "--until-stopped", action="store_true", help=f"train on until it is stopped, for at most {MOST_HOURS} hours"
    )
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--depth", type=int, default=3, help="number of hidden layers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", choices=["none", "vanishing", "exploding"], default="none")
    arguments = parser.parse_args()
    if arguments.fault == "vanishing":
        arguments.depth = max(arguments.depth, VANISHING_DEPTH)
    if arguments.fault == "exploding":
        arguments.learning_rate = EXPLODING_LEARNING_RATE
    return arguments


def load_data(seed):
    digits = load_digits()
    pixels = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target, dtype=torch.long)
    return train_test_split(pixels, labels, test_size=0.2, random_state=seed, stratify=labels)


def accuracy(model, pixels, labels):
    with torch.no_grad():
        return (model(pixels).argmax(dim=1) == labels).float().mean().item()


def numbers_of_epochs(arguments):
    if not arguments.until_stopped:
        return range(arguments.epochs)
    end = time.monotonic() + 3600 * MOST_HOURS
    return itertools.takewhile(lambda _: time.monotonic() < end, itertools.count())


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)

    train_pixels, test_pixels, train_labels, test_labels = load_data(arguments.seed)
    activation = torch.sigmoid if arguments.fault == "vanishing" else torch.relu
    model = DigitClassifier(arguments.depth, activation)
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.learning_rate)

    for epoch in numbers_of_epochs(arguments):
        total_loss = 0.0
        total_correct = 0
        for batch in torch.randperm(len(train_pixels)).split(arguments.batch_size):
            optimizer.zero_grad()
            logits = model(train_pixels[batch])
            loss = functional.cross_entropy(logits, train_labels[batch])
            loss.backward()
            optimizer.step()
            total_loss += loss.item() * len(batch)
            total_correct += (logits.argmax(dim=1) == train_labels[batch]).sum().item()
        mean_loss = total_loss / len(train_pixels)
        mean_accuracy = total_correct / len(train_pixels)
        print(f"epoch {epoch:3d}  train loss {mean_loss:8.4f}  accuracy {mean_accuracy:.3f}", flush=True)

    print(f"test accuracy {accuracy(model, test_pixels, test_labels):.3f}", flush=True)


if __name__ == "__main__":
    main()
