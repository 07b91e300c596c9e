"""What is wrong with the data, or with how they are served."""

from functools import partial

import torch
from torch import Tensor

from benchmarks.detection.corpus import data
from benchmarks.detection.corpus.edits import (
    both,
    few_rows,
    inputs,
    leaking,
    one_target,
    one_value,
    rare_classes,
    settings,
    shuffled_labels,
    sorted_by_label,
)
from benchmarks.detection.corpus.models import BagOfWords, mlp
from benchmarks.detection.corpus.registry import plant

unnormalised_inputs = partial(plant, "unnormalised-inputs")
constant_inputs = partial(plant, "constant-inputs")
class_imbalance = partial(plant, "class-imbalance")
overfitting = partial(plant, "overfitting")
nan_in_data = partial(plant, "nan-in-data")
leakage = partial(plant, "leakage")

# Inputs that are not normalised

unnormalised_inputs("wine-mlp", settings(data=data.raw_wine), "Measurements as they come.")
unnormalised_inputs("digits-mlp", inputs(lambda rows: rows * 255), "Pixels from 0 to 255.")
unnormalised_inputs("cancer-tanh", settings(data=data.raw_breast_cancer), "Measurements as they come.")
unnormalised_inputs("cnn-plain", inputs(lambda rows: rows * 255 * 255), "Pixels from 0 to 65025.")
unnormalised_inputs(
    "diabetes-huber",
    settings(data=lambda seed: data.standard_targets(data.raw_diabetes(seed))),
    "Measurements as they come.",
)
unnormalised_inputs(
    "wine-batchnorm",
    both(settings(data=data.raw_wine, model=lambda: mlp(13, 24, 24, 3))),
    "Measurements as they come, and no batch normalisation.",
)
unnormalised_inputs("digits-hardtanh", inputs(lambda rows: rows * 255), "Pixels from 0 to 255.")

# Inputs without information

constant_inputs("digits-mlp", inputs(torch.zeros_like), "Pixels divided as whole numbers: all 0.")
constant_inputs("waves-rnn", inputs(torch.zeros_like), "Every sequence is empty.")
constant_inputs("cnn-plain", inputs(torch.ones_like), "Images clipped to 1: all white.")
constant_inputs("topics-mlp", inputs(torch.zeros_like), "No word is found in the vocabulary.")
constant_inputs(
    "friedman-mlp",
    inputs(lambda rows: rows.mean(0, keepdim=True).expand_as(rows)),
    "The mean over the wrong axis: every row is the same.",
)
constant_inputs("cancer-mlp", inputs(torch.zeros_like), "Columns that were joined by the wrong key: all 0.")

# Labels of other rows

for program in (
    "digits-mlp",
    "wine-mlp",
    "waves-convolutions",
    "cnn-plain",
    "cancer-tanh",
    "topics-mlp",
    "friedman-mlp",
    "digits-layernorm",
):
    plant("shuffled-labels", program, shuffled_labels(), "Inputs and targets were sorted apart.")

# Classes that are rare

class_imbalance("digits-batchnorm", rare_classes(60, 5, 6, 7, 8, 9), "Five classes have one row in sixty.")
class_imbalance("moons-wide", rare_classes(100, 1), "One class has one row in a hundred.")
class_imbalance("digits-dropout", rare_classes(50, 0, 2, 4, 6, 8), "Five classes have one row in fifty.")
class_imbalance("cnn-plain", rare_classes(60, 1, 3, 5, 7, 9), "Five classes have one row in sixty.")
class_imbalance("topics-mlp", rare_classes(60, 2, 3), "Two topics have one passage in sixty.")
class_imbalance("cancer-mlp", rare_classes(70, 0), "One tumour in seventy is left.")

# Models that learn by heart

overfitting(
    "friedman-silu",
    both(few_rows(60), settings(epochs=150, model=lambda: mlp(10, 128, 128, 1), schedule=None)),
    "60 rows and 18,000 parameters.",
    begins=None,
)
overfitting(
    "topics-sparse",
    both(few_rows(60), settings(epochs=150, rate=0.5)),
    "60 passages and 19,000 parameters.",
    begins=None,
)
overfitting(
    "diabetes-mlp",
    settings(epochs=35, model=lambda: mlp(10, 192, 192, 1)),
    "38,000 parameters for 265 patients.",
    begins=None,
)
overfitting(
    "digits-noisy-labels",
    both(few_rows(120), settings(epochs=110, model=lambda: mlp(64, 256, 256, 10))),
    "84,000 parameters for 120 digits of which some have wrong labels.",
    begins=None,
)
overfitting("cnn-plain", both(few_rows(50), settings(epochs=150)), "50 digits.", begins=None)
overfitting(
    "topics-mlp",
    both(few_rows(60), settings(epochs=150, model=lambda: BagOfWords(data.WORDS, 64, 4, hidden=64))),
    "60 passages and 55,000 parameters.",
    begins=None,
)

# Values that are no numbers

nan_in_data("wine-mlp", one_value(float("nan")), "A missing measurement is NaN.")
nan_in_data("digits-mlp", one_value(float("nan"), since=150), "From step 150 on a pixel is NaN.", begins=150)
nan_in_data("cancer-mlp", one_value(float("nan")), "A missing measurement is NaN.")
nan_in_data("friedman-mlp", one_target(float("nan"), since=120), "From step 120 on a target is NaN.", begins=120)
nan_in_data("cnn-plain", one_value(float("inf"), since=80), "From step 80 on a pixel is infinite.", begins=80)
nan_in_data("waves-lstm", one_value(float("nan"), since=100), "From step 100 on a value is NaN.", begins=100)

# Order

for program in ("digits-mlp", "rows-rnn", "cnn-plain", "digits-dropout", "topics-mlp", "rows-gru"):
    plant("data-order", program, sorted_by_label(), "Rows lie sorted by class, and are not shuffled.")

# Leakage


def _last_column(rows: Tensor, answers: Tensor) -> Tensor:
    rows[:, -1] = 3 * answers.flatten().float()
    return rows


def _corner(images: Tensor, answers: Tensor) -> Tensor:
    images.view(len(images), -1)[torch.arange(len(images)), answers] = 4.0
    return images


def _first_word(passages: Tensor, answers: Tensor) -> Tensor:
    passages[:, :4] = answers.unsqueeze(1) + data.WORDS - 4
    return passages


leakage("wine-mlp", leaking(_last_column), "A column holds the answer.", layers=("0",))
leakage("friedman-silu", leaking(_last_column), "A column holds the answer.", layers=("0",))
leakage("friedman-mlp", leaking(_last_column), "A column holds the answer.", layers=("0",))
leakage("cancer-tanh", leaking(_last_column), "A column holds the answer.", layers=("0",))
leakage("cnn-plain", leaking(_corner), "A pixel of the first rows marks the class.", layers=("convolutions.0",))
leakage("topics-mlp", leaking(_first_word), "The first words name the topic.", layers=("words",))
