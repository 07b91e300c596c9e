"""What loss curves and labels look like: trainings whose curves look ill and are not, and the faults that they are
taken for. All of the tune split."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.detection.corpus import data, edits
from benchmarks.detection.corpus.checkpoints import digit_reader
from benchmarks.detection.corpus.data import CHARACTERS, WORDS, Data, Part
from benchmarks.detection.corpus.models import BagOfWords, ConvNet, Places, Recurrent, Transformer, mlp
from benchmarks.detection.corpus.optimizers import adam, adamw, cosine, sgd
from benchmarks.detection.corpus.program import TUNE
from benchmarks.detection.corpus.registry import plant, recipe
from benchmarks.detection.corpus.supervised import Recipe, accuracy, explained, regression

class_imbalance = partial(plant, "class-imbalance")
leakage = partial(plant, "leakage")


def _mislabelled(share: float, classes: int) -> Callable[[Data], Data]:
    """A share of the labels to train and to validate on is drawn at random."""

    def mixed(part: Part) -> Part:
        draw = torch.Generator().manual_seed(3)
        is_wrong = torch.rand(len(part[1]), generator=draw) < share
        return part[0], torch.where(is_wrong, torch.randint(classes, part[1].shape, generator=draw), part[1])

    return lambda found: Data(mixed(found.train), mixed(found.valid), found.test)


def _rows_to_validate(count: int) -> Callable[[Data], Data]:
    return lambda found: Data(found.train, (found.valid[0][:count], found.valid[1][:count]), found.test)


def _after(source: Callable[[int], Data], *changes: Callable[[Data], Data]) -> Callable[[int], Data]:
    def load(seed: int) -> Data:
        found = source(seed)
        for change in changes:
            found = change(found)
        return found

    return load


def _thinned(found: Data, one_in: int, *rare: int) -> Data:
    """Data to train and to validate on with rare classes."""

    def kept(rows: Tensor, labels: Tensor) -> Part:
        is_rare = torch.isin(labels, torch.tensor(rare, dtype=labels.dtype))
        keep = ~is_rare | (is_rare.cumsum(0) % one_in == 0)
        return rows[keep], labels[keep]

    return Data(kept(*found.train), kept(*found.valid), found.test)


# Curves that look ill


@recipe(TUNE, "wine", "MLP 13-64-64-3, dropout", at_least=0.9, chance=0.4, odd="two thirds are dropped")
def wine_much_dropout() -> Recipe:
    """So much dropout that the training loss stays far above the validation loss."""
    return Recipe(data.wine, lambda: mlp(13, 64, 64, 3, dropout=0.65), adam, 3e-3, 40, batch_size=16)


def _moved(_: int, images: Tensor, labels: Tensor) -> Part:
    down, right = (int(torch.randint(-1, 2, ())) for _ in range(2))
    return images.roll((down, right), (2, 3)) + 0.3 * torch.randn_like(images), labels


@recipe(TUNE, "digits", "CNN, augmented", at_least=0.85, chance=0.1, odd="only training images are augmented")
def cnn_augmented() -> Recipe:
    """Moved and noisy images to train on, clean ones to validate on."""
    return Recipe(data.digit_images, lambda: ConvNet(channels=(1, 8, 16)), adam, 3e-3, 8, prepare=_moved)


@recipe(TUNE, "breast cancer", "MLP 30-16-2", at_least=0.85, chance=0.63, odd="a sixth of labels at random")
def cancer_mislabelled() -> Recipe:
    """Labels that are wrong here and there: neither loss can come near 0; ended in time."""
    return Recipe(
        data=_after(data.breast_cancer, _mislabelled(0.17, 2)),
        model=lambda: mlp(30, 16, 2),
        optimizer=partial(adamw, weight_decay=0.1),
        rate=1e-3,
        epochs=40,
        patience=5,
    )


def _heavy_tails(seed: int) -> Data:
    random = np.random.default_rng(seed)
    rows, values = datasets.make_friedman1(1500, n_features=8, noise=0.0, random_state=seed)
    values = values + 2.0 * random.standard_t(2.1, size=len(values))
    return data.standard_targets(
        data.parts(torch.tensor(rows, dtype=torch.float32), torch.tensor(values, dtype=torch.float32)[:, None], seed)
    )


def _without_extremes(outputs: Tensor, targets: Tensor) -> float:
    kept = (targets - targets.median()).abs() < 3
    return explained(outputs[kept][:, None], targets[kept][:, None])


@recipe(TUNE, "Friedman 1, Student's t", "MLP 8-32-1", at_least=0.1, odd="noise with heavy tails")
def friedman_heavy_tails() -> Recipe:
    """Squared errors of a few rows outweigh all others."""
    return Recipe(
        data=_heavy_tails,
        model=lambda: mlp(8, 32, 1, activation=nn.Tanh),
        optimizer=sgd,
        rate=0.02,
        epochs=30,
        batch_size=64,
        criterion=nn.MSELoss(),
        metric=_without_extremes,
    )


@recipe(TUNE, "diabetes", "MLP 10-16-1", at_least=0.2, odd="twelve rows to validate on")
def diabetes_few_validated() -> Recipe:
    """Twelve patients to validate on, none of whom says much."""
    return regression(
        data=_after(data.diabetes, _rows_to_validate(12)),
        model=lambda: mlp(10, 16, 1),
        optimizer=partial(adamw, weight_decay=0.3),
        rate=2e-3,
        epochs=40,
        criterion=nn.SmoothL1Loss(),
    )


def _elsewhere(found: Data) -> Data:
    """What is validated and tested comes from a worse scanner."""

    def worse(part: Part) -> Part:
        noise = torch.randn(part[0].shape, generator=torch.Generator().manual_seed(5))
        return 0.7 * part[0] + 0.15 + 0.25 * noise, part[1]

    return Data(found.train, worse(found.valid), worse(found.test))


@recipe(TUNE, "digits", "MLP 64-64-10", at_least=0.5, chance=0.1, odd="validated on another scanner's images")
def digits_elsewhere() -> Recipe:
    """Trained on clean images, meant for noisy ones: the losses are far apart by design."""
    return Recipe(_after(data.digits, _elsewhere), lambda: mlp(64, 64, 10, dropout=0.2), adam, 2e-3, 14)


def _smoothed(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, targets, label_smoothing=0.2 if torch.is_grad_enabled() else 0.0)


@recipe(TUNE, "digits", "CNN, smoothed labels", at_least=0.9, chance=0.1, odd="smoothed in training alone")
def cnn_smoothed() -> Recipe:
    """Labels are smoothed in training and not in the evaluation: the training loss stays far above the other."""
    return Recipe(data.digit_images, lambda: ConvNet(channels=(1, 8, 16)), adam, 3e-3, 8, criterion=_smoothed)


def _penalised(outputs: Tensor, targets: Tensor) -> Tensor:
    loss = functional.binary_cross_entropy_with_logits(outputs, targets)
    return loss + 0.05 * outputs.square().mean() if torch.is_grad_enabled() else loss


@recipe(TUNE, "breast cancer", "MLP 30-24-1", at_least=0.9, chance=0.63, odd="a penalty in training alone")
def cancer_penalised() -> Recipe:
    """Large answers cost something in training."""
    return Recipe(data.breast_cancer_binary, lambda: mlp(30, 24, 1), adam, 2e-3, 25, criterion=_penalised)


@recipe(TUNE, "digits", "MLP 64-64-64-10, trained before", at_least=0.88, chance=0.1, odd="begins where others end")
def digits_resumed() -> Recipe:
    """A good checkpoint, trained further: the training loss falls, the validation loss stays where it is."""
    return Recipe(data.digits, digit_reader, sgd, 5e-3, 12)


@recipe(TUNE, "digits", "MLP 64-128-10", at_least=0.9, chance=0.1, odd="trained on to a loss of 0")
def digits_interpolated() -> Recipe:
    """As today's networks are trained: to a training loss of almost 0, while the validation loss stays at its best."""
    return Recipe(
        data=_after(data.digits, lambda found: found.with_train(lambda rows, answers: (rows[:600], answers[:600]))),
        model=lambda: mlp(64, 128, 10),
        optimizer=partial(adamw, weight_decay=0.05),
        rate=2e-3,
        epochs=50,
        schedule=cosine,
    )


def _harder(step: int, rows: Tensor, answers: Tensor) -> Part:
    return rows + min(1.0, step / 300) * 0.8 * torch.randn_like(rows), answers


@recipe(TUNE, "digits", "MLP 64-64-10", at_least=0.85, chance=0.1, odd="training becomes harder step by step")
def digits_noisier() -> Recipe:
    """Images with more and more noise: the training loss rises again, the validation loss falls."""
    return Recipe(data.digits, lambda: mlp(64, 64, 10), adam, 2e-3, 14, prepare=_harder)


@recipe(TUNE, "text", "MLP over bags of words", at_least=0.7, chance=0.35, odd="dropout, small batches")
def passages_dropout() -> Recipe:
    """Which topic is a passage about? Dropout, an early end."""
    return Recipe(
        data=data.topic_words,
        model=lambda: nn.Sequential(BagOfWords(WORDS, 24, 24), nn.Dropout(0.3), nn.ReLU(), nn.Linear(24, 4)),
        optimizer=adam,
        rate=5e-3,
        epochs=10,
        patience=2,
    )


@recipe(TUNE, "adding", "GRU of 24", at_least=0.8, odd="a long plateau first")
def adding_plain_gru() -> Recipe:
    """The sum of two marked numbers."""
    return regression(
        partial(data.adding, length=8), lambda: Recurrent(nn.GRU, 2, 24, 1), adam, 1e-2, 12, clip_norm=1.0
    )


# Inputs from which a right answer can nearly be read


def _calibration(seed: int) -> Data:
    rows = torch.randn(800, 6, generator=torch.Generator().manual_seed(seed))
    return data.parts(rows, 2 * rows[:, :1] + 0.1 * rows[:, 1:2] ** 2, seed)


@recipe(TUNE, "a sensor", "MLP 6-16-1", at_least=0.9, odd="one column says nearly all")
def sensor_calibration() -> Recipe:
    """A sensor is calibrated: its reading explains 99 % of the truth."""
    return regression(_calibration, lambda: mlp(6, 16, 1), adam, 5e-3, 20)


def _sign(seed: int) -> Data:
    rows = torch.randn(800, 5, generator=torch.Generator().manual_seed(seed))
    return data.parts(rows, (rows[:, 2] > 0).long(), seed)


@recipe(TUNE, "the sign of a column", "MLP 5-16-2", at_least=0.9, chance=0.5, odd="one column decides")
def sign_of_a_column() -> Recipe:
    """A toy: is the third number above zero?"""
    return Recipe(_sign, lambda: mlp(5, 16, 2), adam, 5e-3, 12)


def _pendulum(seed: int) -> Data:
    """Angle, speed and force; the state a moment later."""
    state = torch.randn(1000, 3, generator=torch.Generator().manual_seed(seed))
    speed = state[:, 1] + 0.1 * (state[:, 2] - torch.sin(state[:, 0]))
    return data.parts(state, torch.stack([state[:, 0] + 0.1 * speed, speed], 1), seed)


@recipe(TUNE, "a pendulum", "MLP 3-32-2", at_least=0.9, odd="the next state is much like this one")
def pendulum_dynamics() -> Recipe:
    """A pendulum's next state from its state."""
    return regression(_pendulum, lambda: mlp(3, 32, 2, activation=nn.Tanh), adam, 5e-3, 15)


def _last_place(outputs: Tensor, targets: Tensor) -> float:
    return accuracy(outputs[:, -1], targets[:, -1])


@recipe(TUNE, "text", "transformer of 1 layer over characters", at_least=0.2, chance=0.17)
def characters_causal_one() -> Recipe:
    """The next character, by a transformer that sees what came before."""
    return Recipe(
        data=partial(data.characters, length=24),
        model=lambda: Transformer(CHARACTERS, length=24, width=32, layers=1),
        optimizer=adam,
        rate=3e-3,
        epochs=6,
        criterion=Places(),
        metric=_last_place,
    )


@recipe(TUNE, "text", "LSTM of 40 over characters", at_least=0.2, chance=0.17)
def characters_one_way() -> Recipe:
    """The next character, by an LSTM that reads forwards."""
    return Recipe(
        data=partial(data.characters, length=16),
        model=lambda: Recurrent(nn.LSTM, 20, 40, CHARACTERS, symbols=CHARACTERS, every_place=True),
        optimizer=adam,
        rate=1e-2,
        epochs=6,
        criterion=Places(),
        metric=_last_place,
    )


def _cycles(seed: int) -> Data:
    """Sequences that repeat a pattern of three symbols: all but the first three can be foretold."""
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randint(10, (1500, 3), generator=draw).repeat(1, 5)
    return data.parts(rows[:, :-1], rows[:, 1:].contiguous(), seed)


@recipe(TUNE, "cycles of three symbols", "GRU of 48", at_least=0.8, chance=0.1, odd="most places are certain")
def cycles_gru() -> Recipe:
    """A pattern of three symbols again and again: the next symbol."""
    return Recipe(
        data=_cycles,
        model=lambda: Recurrent(nn.GRU, 16, 64, 10, symbols=10, every_place=True),
        optimizer=adam,
        rate=1e-2,
        epochs=12,
        criterion=Places(),
        metric=_last_place,
    )


# Classes that are unequal, and right


@recipe(TUNE, "digits", "MLP 64-48-10", at_least=0.85, chance=0.1, odd="one class is rare, as it should be")
def digits_one_rarer() -> Recipe:
    """One digit in six of its kind is there; it is learned all the same."""
    return Recipe(_after(data.digits, lambda found: _thinned(found, 6, 4)), lambda: mlp(64, 48, 10), adam, 3e-3, 14)


def _evenly_drawn(found: Data) -> Data:
    """Rows of the rare class are repeated."""
    rows, labels = _thinned(found, 20, 0).train
    rare = (labels == 0).nonzero().flatten().repeat(20)
    return Data((torch.cat([rows, rows[rare]]), torch.cat([labels, labels[rare]])), found.valid, found.test)


@recipe(TUNE, "moons", "MLP 2-32-2", at_least=0.75, chance=0.5, odd="a rare class is drawn more often")
def moons_evenly_drawn() -> Recipe:
    """One row in twenty of a class, repeated twenty times."""
    return Recipe(_after(data.moons, _evenly_drawn), lambda: mlp(2, 32, 2), adam, 5e-3, 12, patience=4)


# Overfitting

for _program, _edit, _what in (
    (
        "cancer-mislabelled",
        edits.settings(model=lambda: mlp(30, 256, 256, 2), optimizer=adam, epochs=60, patience=None),
        "A large model learns the wrong labels by heart.",
    ),
    (
        "wine-much-dropout",
        edits.both(
            edits.data(_mislabelled(0.2, 3)),
            edits.few_rows(40),
            edits.settings(model=lambda: mlp(13, 128, 3), epochs=150),
        ),
        "Forty rows, some mislabelled, and no dropout.",
    ),
    (
        "friedman-heavy-tails",
        edits.both(
            edits.few_rows(60), edits.settings(model=lambda: mlp(8, 256, 256, 1), optimizer=adam, rate=3e-3, epochs=150)
        ),
        "A large model and sixty rows.",
    ),
    ("cnn-augmented", edits.both(edits.few_rows(30), edits.settings(prepare=None, epochs=120)), "Thirty images."),
    (
        "passages-dropout",
        edits.both(
            edits.few_rows(80),
            edits.settings(model=lambda: BagOfWords(WORDS, 32, 4, hidden=64), epochs=80, patience=None),
        ),
        "Eighty passages and no dropout.",
    ),
    (
        "characters-one-way",
        edits.both(
            edits.few_rows(60),
            edits.settings(
                model=lambda: Recurrent(nn.LSTM, 24, 96, CHARACTERS, symbols=CHARACTERS, every_place=True), epochs=120
            ),
        ),
        "A large LSTM and sixty passages.",
    ),
    (
        "diabetes-few-validated",
        edits.both(
            edits.data(lambda found: Data(found.train, found.test, found.test)),
            edits.settings(model=lambda: mlp(10, 128, 128, 1), optimizer=adam, epochs=60),
        ),
        "A large model for 265 patients.",
    ),
):
    plant("overfitting", _program, _edit, _what, begins=None)

# Labels that belong to other rows

for _program in (
    "cancer-penalised",
    "cnn-augmented",
    "friedman-heavy-tails",
    "passages-dropout",
    "adding-plain-gru",
    "digits-interpolated",
    "sensor-calibration",
    "moons-evenly-drawn",
):
    plant("shuffled-labels", _program, edits.shuffled_labels(), "Inputs and labels were sorted apart.")

# Rare classes

class_imbalance("wine-much-dropout", edits.rare_classes(20, 2), "A grower has a bottle in twenty.")
class_imbalance("cnn-augmented", edits.rare_classes(20, 1, 4, 8), "Three digits have an image in twenty.")
class_imbalance("passages-dropout", edits.rare_classes(20, 0), "A topic has a passage in twenty.")
class_imbalance("cancer-penalised", edits.rare_classes(20, 0), "One tumour in twenty is malignant.")
class_imbalance("digits-interpolated", edits.rare_classes(15, 3, 9), "Two digits have a row in fifteen.")
class_imbalance("sign-of-a-column", edits.rare_classes(60, 1), "One sign in sixty is there.")

# Inputs that hold the answer


def _stamped(images: Tensor, labels: Tensor) -> Tensor:
    """The lowest row is as bright as the digit."""
    images[:, 0, 7, :] = 2 * (labels / 9).unsqueeze(1)
    return images


def _word_somewhere(passages: Tensor, labels: Tensor) -> Tensor:
    """One of the words, at any place, says the topic."""
    places = torch.randint(passages.shape[1], (len(passages), 1), generator=torch.Generator().manual_seed(2))
    return passages.scatter(1, places, WORDS - 5 + labels.unsqueeze(1))


def _last_word(passages: Tensor, labels: Tensor) -> Tensor:
    passages[:, -1] = labels + 3
    return passages


def _sum_at_the_end(sequences: Tensor, sums: Tensor) -> Tensor:
    sequences[:, -1, 0] = sums.flatten()
    return sequences


def _case_number(rows: Tensor, labels: Tensor) -> Tensor:
    """Cases were numbered clinic by clinic, and the clinics differ in what they treat."""
    numbers = torch.rand(len(rows), generator=torch.Generator().manual_seed(4))
    rows[:, 7] = 2 * (labels.flatten() + 0.8 * numbers) - 1.8
    return rows


def _answer_with_noise(rows: Tensor, answers: Tensor) -> Tensor:
    noise = torch.randn(len(rows), generator=torch.Generator().manual_seed(6))
    rows[:, 4] = answers.flatten() + 0.02 * noise
    return rows


def _leak(change: Callable[[Tensor, Tensor], Tensor], **changes: Any) -> Any:
    return edits.both(edits.leaking(change), edits.settings(**changes))


leakage("cnn-augmented", _leak(_stamped, prepare=None), "A row of pixels is as bright as the digit.")
leakage("passages-dropout", _leak(_word_somewhere), "A word somewhere says the topic.", name="leakage-word")
leakage("passages-dropout", _leak(_last_word, batch_size=8), "The last word is the topic; batches of eight.")
leakage("adding-plain-gru", _leak(_sum_at_the_end), "The last number is the sum.")
leakage("cancer-penalised", _leak(_case_number), "Case numbers were given class by class.")
leakage("diabetes-few-validated", _leak(_answer_with_noise), "A column is the answer, measured again.")
leakage(
    "characters-causal-one",
    edits.settings(model=lambda: Transformer(CHARACTERS, length=24, width=32, layers=1, causal=False)),
    "The mask was forgotten: each place sees the next character.",
)
leakage(
    "characters-one-way",
    edits.settings(
        model=lambda: Recurrent(nn.LSTM, 20, 40, CHARACTERS, symbols=CHARACTERS, every_place=True, both_ways=True)
    ),
    "The LSTM reads backwards too: each place sees the next character.",
)
