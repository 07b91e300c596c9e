"""Published lists of mistakes: how each entry is planted, or why it is not.

DeepCrime: Humbatova, Jahangirova, Tonella, ISSTA 2021. The taxonomy: Humbatova et al., ICSE 2020 (its leaves).
TrainCheck: Jiang et al., OSDI 2025; the whole list with the rules that find them is docs/lab-notes/silent-errors.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

DEEPCRIME, TAXONOMY, TRAINCHECK = "DeepCrime", "Humbatova et al.", "TrainCheck"


@dataclass(frozen=True)
class Entry:
    """An entry of a published list.

    operators  those that plant it
    why_not    the reason if there are none, or what they leave out
    """

    source: str
    name: str
    operators: tuple[str, ...] = ()
    why_not: str = ""


SHAPE = "ends in an exception at the first step: nothing is left for a rule to find"
DEVICE = "needs a GPU, and ends in an exception or only costs time"
CHOICE = "a choice of the author: from outside nobody knows what would have been right"
CRASH = "ends in an exception or a missing file before the first step"
FRAMEWORK = "of TensorFlow's graphs; PyTorch has none"
SILENT = "`python -m benchmarks.silent` re-makes it, with a twin"
NO_TRAINING = "no training step takes part"
_WEIGHTS = ("weights-zero", "weights-constant", "weights-10-times-too-large", "weights-100-times-too-small")
_ACTIVATIONS = ("activations-sigmoid", "activations-saturated", "activations-dead")
_RATES = ("rate-100-times-too-high", "rate-1000-times-too-low")
_LOSSES = ("loss-of-class-numbers", "loss-broadcast", "softmax-doubled", "sigmoid-doubled")

ENTRIES = (
    Entry(DEEPCRIME, "TCL change labels", ("labels-shuffled", "labels-partly-wrong", "labels-off-by-one")),
    Entry(DEEPCRIME, "TRD remove training data", ("rows-removed",)),
    Entry(DEEPCRIME, "TUD unbalance training data", ("class-dropped",)),
    Entry(DEEPCRIME, "TAN add noise to training data", ("inputs-noisy",)),
    Entry(DEEPCRIME, "TCO make output classes overlap", ("classes-overlap",)),
    Entry(
        DEEPCRIME, "HBS change batch size", ("batching-disabled",), "other sizes than all rows are no mistake by sight"
    ),
    Entry(DEEPCRIME, "HLR change learning rate", _RATES),
    Entry(
        DEEPCRIME,
        "HNE change number of epochs",
        (),
        "the loop is the program's; a shorter run is right as far as it goes",
    ),
    Entry(DEEPCRIME, "HDB disable data batching", ("batching-disabled",)),
    Entry(DEEPCRIME, "ACH change activation", _ACTIVATIONS),
    Entry(DEEPCRIME, "ARM remove activation", ("activations-removed",)),
    Entry(DEEPCRIME, "AAL add activation", ("output-activated",)),
    Entry(DEEPCRIME, "RAW add weight regularisation", ("penalty-dominates", "decay-too-strong")),
    Entry(DEEPCRIME, "RCW change weight regularisation", ("decay-too-strong",)),
    Entry(DEEPCRIME, "RRW remove weight regularisation", (), "hurts none of these short trainings"),
    Entry(DEEPCRIME, "RCD change dropout rate", ("dropout-too-strong",)),
    Entry(DEEPCRIME, "RCP change patience", (), "early stopping belongs to each library: PyTorch has no seam for it"),
    Entry(DEEPCRIME, "WCI change weight initialisation", _WEIGHTS),
    Entry(DEEPCRIME, "WAB add bias", (), "a parameter more is no mistake that anybody could see"),
    Entry(DEEPCRIME, "WRB remove bias", ("biases-removed",)),
    Entry(DEEPCRIME, "LCH change loss function", _LOSSES),
    Entry(DEEPCRIME, "OCH change optimisation function", ("optimizer-of-signs", "epsilon-too-large")),
    Entry(DEEPCRIME, "OCG change gradient clipping", ("gradients-clipped-away", "values-clipped-away")),
    Entry(
        DEEPCRIME, "VRM remove validation set", ("evaluation-on-training-data",), "a program without any is right too"
    ),
    Entry(TAXONOMY, "model: wrong weights initialisation, wrong model initialisation", _WEIGHTS),
    Entry(TAXONOMY, "model: multiple initialisations", (), "right programs initialise layers twice too"),
    Entry(TAXONOMY, "model: wrong selection, architecture or structure", (), CHOICE),
    Entry(TAXONOMY, "layers: missing, redundant or wrong", ("normalisation-removed",), CHOICE),
    Entry(TAXONOMY, "layers: redundant softmax", ("softmax-doubled",)),
    Entry(TAXONOMY, "layers: missing dropout", (), "harmless on a training loss; `overfit` is meant for its effect"),
    Entry(TAXONOMY, "layers: missing bias", ("biases-removed",)),
    Entry(TAXONOMY, "layers: wrong input or output shape, filter size, dimension mismatch", (), SHAPE),
    Entry(TAXONOMY, "layers: wrong number of neurons, amount or type of pooling", (), CHOICE),
    Entry(TAXONOMY, "activation: wrong type", _ACTIVATIONS),
    Entry(TAXONOMY, "activation: missing softmax or ReLU", ("activations-removed",)),
    Entry(TAXONOMY, "inputs: wrong format, type or shape", ("axes-mixed",), SHAPE),
    Entry(TAXONOMY, "tensor shape: missing squeeze", ("loss-broadcast",)),
    Entry(TAXONOMY, "tensor shape: wrong indexing, padding, mismatch", ("axes-mixed",), SHAPE),
    Entry(TAXONOMY, "hyperparameters: learning rate", _RATES),
    Entry(
        TAXONOMY,
        "hyperparameters: batch size, batching required, wrong batching",
        ("batching-disabled", "batch-repeated"),
    ),
    Entry(TAXONOMY, "hyperparameters: number of epochs", (), "as DeepCrime's HNE"),
    Entry(TAXONOMY, "hyperparameters: missing regularisation", (), "as DeepCrime's RRW"),
    Entry(TAXONOMY, "hyperparameters: suboptimal tuning", ("momentum-too-high", "decay-too-strong")),
    Entry(TAXONOMY, "loss: wrong selection or calculation", (*_LOSSES, "loss-negated", "loss-summed", "loss-shrunk")),
    Entry(TAXONOMY, "loss: missing masking of invalid values", ("padding-counted",)),
    Entry(TAXONOMY, "loss: missing", (), CRASH),
    Entry(TAXONOMY, "validation: missing set, wrong metric", (), "no training step takes part in a metric"),
    Entry(TAXONOMY, "validation: incorrect split", ("evaluation-on-training-data",)),
    Entry(TAXONOMY, "preprocessing: normalisation or scaling missing", ("inputs-unscaled", "evaluation-unscaled")),
    Entry(TAXONOMY, "preprocessing: shuffling missing", ("rows-not-shuffled",)),
    Entry(TAXONOMY, "preprocessing: padding", ("padding-counted",)),
    Entry(TAXONOMY, "preprocessing: over- and subsampling", ("class-dropped", "rows-removed")),
    Entry(TAXONOMY, "preprocessing: encodings, segmentation, image sizes", (), "done before PyTorch sees a tensor"),
    Entry(TAXONOMY, "optimiser: wrong function", ("optimizer-of-signs",)),
    Entry(TAXONOMY, "optimiser: epsilon of Adam", ("epsilon-too-large",), "too small an epsilon hurts none of these"),
    Entry(TAXONOMY, "training data: wrong labels", ("labels-shuffled", "labels-partly-wrong", "labels-off-by-one")),
    Entry(TAXONOMY, "training data: unbalanced", ("class-dropped",)),
    Entry(TAXONOMY, "training data: not enough", ("rows-removed",)),
    Entry(TAXONOMY, "training data: low quality", ("inputs-noisy", "inputs-nan")),
    Entry(TAXONOMY, "training data: overlapping classes", ("classes-overlap",)),
    Entry(
        TAXONOMY, "training data: features discarded, of small range or wrongly selected", ("inputs-constant",), CHOICE
    ),
    Entry(TAXONOMY, "training data: too many output categories", (), CHOICE),
    Entry(TAXONOMY, "process: memory, model too big", (), "an exception, or the kernel's kill"),
    Entry(TAXONOMY, "process: non-existing checkpoint", ("weights-lost", "optimizer-state-lost"), CRASH),
    Entry(TAXONOMY, "process: data augmentation missing or redundant", ("inputs-noisy",), CHOICE),
    Entry(TAXONOMY, "GPU usage: all ten leaves", (), DEVICE),
    Entry(TAXONOMY, "API: wrong position of the shuffle", ("rows-not-shuffled", "labels-shuffled")),
    Entry(TAXONOMY, "API: missing call", ("gradients-kept", "schedule-never-stepped", "trained-in-evaluation-mode")),
    Entry(
        TAXONOMY,
        "API: wrong usage",
        ("gradients-cleared-late", "evaluated-in-training-mode", "schedule-stepped-too-often"),
    ),
    Entry(TAXONOMY, "API: variables, placeholders, operational graph, scoping", (), FRAMEWORK),
    Entry(TAXONOMY, "API: deprecated, image decoding", (), CRASH),
    Entry(TRAINCHECK, "deepspeed-1801, pytorch-104336, x-jxmnop-ddp-out-of-sync", (), f"need two ranks: {SILENT}"),
    Entry(TRAINCHECK, "deepspeed-5794", (), "a hang: the rule of that name finds it, docs/lab-notes/silent-errors.md"),
    Entry(
        TRAINCHECK,
        "lightning-thunder-725",
        (),
        "a function that autocast does not know has no seam from outside; re-made it is found",
    ),
    Entry(TRAINCHECK, "mmpretrain-702", ("layers-frozen",), f"with the opposite sign; {SILENT}"),
    Entry(TRAINCHECK, "pytorch-51800", ("trained-in-evaluation-mode",), f"without spectral norm; {SILENT}"),
    Entry(TRAINCHECK, "pytorch-115607", (), f"a step that stays frozen needs the compiler: {SILENT}"),
    Entry(TRAINCHECK, "pytorch-84803, pytorch-96600, baichuan2-86", ("inputs-lost",)),
    Entry(TRAINCHECK, "pytorch-forum-84911", ("layers-frozen", "inputs-unscaled"), "one mistake at a time"),
    Entry(TRAINCHECK, "stackoverflow-60335387", ("gradients-kept",)),
    Entry(TRAINCHECK, "stackoverflow-67180955", (), f"few programs have workers: {SILENT}"),
    Entry(TRAINCHECK, "transformers-17877", (), "right programs initialise layers twice too"),
    Entry(TRAINCHECK, "transformers-23723", (), NO_TRAINING),
    Entry(TRAINCHECK, "transformers-33844", ("dropout-always-on",)),
    Entry(TRAINCHECK, "transformers-34204", ("inputs-constant",)),
    Entry(TRAINCHECK, "transformers-33455", ("schedule-stepped-too-often", "rate-collapses")),
    Entry(TRAINCHECK, "transformers-29903", (), f"of the saving, not of a step: {SILENT}"),
    Entry(TRAINCHECK, "new: AC-2665", ("built-before-replacement",)),
    Entry(TRAINCHECK, "new: DS-5489", (), f"of the saving, not of a step: {SILENT}"),
)


def table() -> Iterator[str]:
    """Yield the table of all entries, line by line."""
    yield "| list | entry | planted by | not planted, or not all of it, because |"
    yield "|---|---|---|---|"
    for each in ENTRIES:
        yield f"| {each.source} | {each.name} | {', '.join(each.operators) or '-'} | {each.why_not or '-'} |"
