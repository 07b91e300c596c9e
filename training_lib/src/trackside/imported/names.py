"""The meaning of each series of a log, guessed by its name.

Every tool names the same numbers in its own way:

    tool                 training loss     evaluation loss   learning rate         gradients        step
    transformers, TRL    loss              eval_loss         learning_rate         grad_norm        step
    the same, charts     train/loss        eval/loss         train/learning_rate   train/grad_norm  train/global_step
    Lightning            train_loss_step   val_loss          lr-Adam               grad_norm        step
    Keras                loss              val_loss          learning_rate                          epoch
    PyTorch examples     Loss/train        Loss/test         lr                                     (row)
    nanoGPT              train/loss        val/loss          lr                                     iter
    fairseq              train_inner loss  valid loss        lr                    gnorm            num_updates
    XGBoost, LightGBM    train-rmse        valid_0's l2                                             round
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean

MOST_LOSSES = 4  # of a log without a total

_TRAINED = frozenset({"train", "training", "trn", "tr", "trainer", "inner", "learn"})
_EVALUATED = frozenset(
    {"val", "valid", "validation", "eval", "evaluation", "test", "testing", "dev", "heldout", "holdout"}
)
_WAYS = frozenset({"step", "epoch", "batch", "iter", "avg", "average", "mean", "running", "value", "s"})
_LOSS = frozenset({"loss", "losses"})
_LIKE_LOSS = frozenset({"nll", "ce", "xent", "crossentropy", "perplexity", "bpb", "bpc"})
_FALLING = frozenset(  # the whole name of a metric, but for words for the set and its number
    {
        *("rmse", "mse", "mae", "logloss", "mlogloss", "error", "merror", "l1", "l2", "rmsle", "mape", "deviance"),
        *("binary logloss", "multi logloss", "poisson", "quantile", "gamma", "tweedie", "huber", "cross entropy"),
    }
)
_NO_LOSS = frozenset(
    {
        *("scale", "scaler", "weight", "weights", "coef", "ratio", "best", "min", "max", "lowest", "std", "var"),
        *("time", "count", "num", "seconds", "sec", "per", "lr", "rate", "norm", "acc", "accuracy", "delta"),
    }
)
_TOTAL = frozenset({"total", "overall", "sum", "combined", "all", "objective", "final"})
_SEVERAL_AIMS = frozenset(
    {
        *("disc", "discriminator", "gen", "generator", "critic", "actor", "policy", "value", "pg", "vf", "adv"),
        *("adversarial", "qf", "qf1", "qf2", "td", "q"),
    }
)
_EARNED = frozenset({"reward", "rewards", "rew", "return", "returns"})
_GRADIENT = frozenset({"grad", "grads", "gradient", "gradients"})
_WEIGHT = frozenset({"weight", "weights", "bias", "biases", "kernel", "embedding", "embeddings", "gamma", "beta"})
_TITLES = frozenset({"weights", "params", "parameters", "histograms", "histogram", "param", "model", "train"})
_WHOLE = frozenset({"total", "global", "all", "overall"})

_STEPS = (
    *("step", "global_step", "trainer/global_step", "train/global_step", "_step", "steps", "iter", "iteration"),
    *("iters", "iterations", "num_updates", "update", "updates", "round", "n_iter", "it", "global_steps", "batch"),
)
_EPOCHS = ("epoch", "epochs", "train/epoch")

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHER = re.compile(r"[^A-Za-z0-9]+")

LOSS, EVALUATION, RATE, NORM, STEP, EPOCH = COLUMN_ROLES = (
    "loss",
    "eval_loss",
    "learning_rate",
    "grad_norm",
    "step",
    "epoch",
)
_OTHER_WORDS = {"train_loss": LOSS, "val_loss": EVALUATION, "validation_loss": EVALUATION, "lr": RATE, "iter": STEP}


@dataclass(frozen=True)
class Evaluated:
    """A series of evaluation losses. `loss` is the name that it shares with its training loss."""

    column: str
    loss: str


@dataclass(frozen=True)
class Meanings:
    """The meaning of the series of a log, by their names in it.

    losses        training losses, by the name under which they are judged
    evaluations   evaluation losses
    rate          the learning rate; "" if the log has none
    norm          the norm of all gradients; ""
    step, epoch   the counters of a log with rows; ""
    others        series without a meaning for rules
    has_several_aims  the losses are those of models that compete, or of a policy: they need not fall
    """

    losses: Mapping[str, str] = field(default_factory=dict)
    evaluations: tuple[Evaluated, ...] = ()
    rate: str = ""
    norm: str = ""
    step: str = ""
    epoch: str = ""
    others: tuple[str, ...] = ()
    has_several_aims: bool = False

    @property
    def has_loss(self) -> bool:
        """True if any series is a loss."""
        return bool(self.losses or self.evaluations)

    def shown(self) -> dict[str, str]:
        """Return the columns by role, several as one text."""
        found = {
            LOSS: ", ".join(self.losses.values()),
            EVALUATION: ", ".join(one.column for one in self.evaluations),
            RATE: self.rate,
            NORM: self.norm,
            STEP: self.step,
            EPOCH: self.epoch,
        }
        return {role: column for role, column in found.items() if column}


def parse_columns(texts: Iterable[str]) -> dict[str, str]:
    """Return the column of each role, from texts such as `loss=train_loss,step=iter`.

    Raises:
        ConfigurationError: A text is no pair, or names no role; all problems at once.
    """
    found: dict[str, str] = {}
    problems = []
    for pair in [part.strip() for text in texts for part in text.split(",") if part.strip()]:
        role, equals, column = pair.partition("=")
        name = _OTHER_WORDS.get(role.strip().lower(), role.strip().lower())
        if not equals or not column.strip():
            problems.append(
                Problem(repr(pair), "is no pair.", "Write for example: --columns loss=train_loss,step=iter")
            )
        elif name not in COLUMN_ROLES:
            what = f"names no role. Roles: {', '.join(COLUMN_ROLES)}."
            problems.append(Problem(repr(role), what, did_you_mean(role, COLUMN_ROLES)))
        else:
            found[name] = column.strip()
    if problems:
        raise ConfigurationError(problems, subject="--columns")
    return found


def meanings_of(names: Sequence[str], chosen: Mapping[str, str], *, sizes: Mapping[str, int] | None = None) -> Meanings:
    """Return the meaning of each series.

    Args:
        names: The names in the log, in their order.
        chosen: Columns by role, by the user; they go before any guess.
        sizes: Number of points of each series; of two ways to log one loss the one with more points is taken.

    Raises:
        ConfigurationError: The log has no column of that name.
    """
    _check(names, chosen)
    taken = set(chosen.values())
    free = [name for name in names if name not in taken]
    step = chosen.get(STEP) or _first(free, _STEPS)
    epoch = chosen.get(EPOCH) or _first(free, _EPOCHS)
    free = [name for name in free if name not in {step, epoch}]
    rate, norm = chosen.get(RATE) or _rate(free), chosen.get(NORM) or _norm(free)
    free = [name for name in free if name not in {rate, norm}]
    losses, evaluations = _losses(free, chosen, sizes or {})
    used = {rate, norm, step, epoch, *losses.values(), *(one.column for one in evaluations)}
    return Meanings(
        losses,
        evaluations,
        rate,
        norm,
        step,
        epoch,
        tuple(name for name in names if name not in used),
        has_several_aims=_has_several_aims(names, losses) and LOSS not in chosen,
    )


def tensor_of(tag: str) -> str:
    """Return the name under which rules know the tensor of a histogram; "" if it is no weight and no gradient of one.

    `fc1.weight.grad`, `gradients/fc1.weight` and `grad_fc1.weight` are `gradient/fc1.weight`.
    """
    words = words_of(tag)
    if not _WEIGHT.intersection(word.rstrip("0123456789") for word in words):
        return ""
    parts = [part for part in re.split(r"(/|\.|_)", tag) if part]
    kept = [part for part in parts if part.lower() not in _GRADIENT]
    name = re.sub(r"([/._])[/._]+", r"\1", "".join(kept)).strip("/._")
    first, slash, rest = name.partition("/")
    name = rest if slash and first.lower() in _TITLES else name
    return f"gradient/{name}" if len(kept) < len(parts) else name


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in small letters: `trainLoss`, `train/loss` and `train_loss` are alike."""
    words = [word.lower() for word in _OTHER.split(_CAPITAL.sub(" ", name)) if word]
    found: list[str] = []
    for word in words:
        before = word.removesuffix("loss")
        found += [before, "loss"] if before != word and before in _TRAINED | _EVALUATED else [word]
    return tuple(found)


def is_evaluation(name: str) -> bool:
    """Return True if the name is that of a number of an evaluation."""
    return bool(_EVALUATED.intersection(words_of(name)))


def is_training(name: str) -> bool:
    """Return True if the name is that of a number of the training, by a word for it."""
    return bool(_TRAINED.intersection(words_of(name)))


def rank_of_loss(name: str) -> int | None:
    """Return how surely a name is that of a loss: 0 surely, 1 nearly, 2 for metrics of trees; None for no loss."""
    words = frozenset(words_of(name))
    if words & _NO_LOSS:
        return None
    if words & _LOSS:
        return 0
    if words & _LIKE_LOSS or "cross_entropy" in name.lower():
        return 1
    named = [word for word in words_of(name) if word not in _WAYS | _TRAINED | _EVALUATED and not word.isdigit()]
    return 2 if " ".join(named) in _FALLING else None


def _check(names: Sequence[str], chosen: Mapping[str, str]) -> None:
    missing = [(role, column) for role, column in chosen.items() if column not in names]
    if missing:
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        problems = [
            Problem(f"{role}={column}", f"The log has no column {column!r}.", did_you_mean(column, names))
            for role, column in missing
        ]
        raise ConfigurationError(problems, subject=f"--columns (the log has: {shown})")


def _first(names: Sequence[str], known: Sequence[str]) -> str:
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[one] for one in known if one in lower), "")


def _rate(names: Sequence[str]) -> str:
    found = [name for name in names if "lr" in words_of(name) or {"learning", "rate"} <= set(words_of(name))]
    return min(found, key=lambda name: len(words_of(name)), default="")


def _norm(names: Sequence[str]) -> str:
    found = []
    for name in names:
        words = set(words_of(name))
        if "gnorm" in words or (words & _GRADIENT and "norm" in words) or "gradnorm" in words:
            found.append(name)
    if len(found) > 1:
        whole = [name for name in found if _WHOLE.intersection(words_of(name))]
        fewest = min(len(words_of(name)) for name in found)
        short = [name for name in found if len(words_of(name)) == fewest]
        return whole[0] if whole else short[0] if len(short) == 1 else ""
    return found[0] if found else ""


def _losses(
    names: Sequence[str], chosen: Mapping[str, str], sizes: Mapping[str, int]
) -> tuple[dict[str, str], tuple[Evaluated, ...]]:
    ranks = {name: rank for name in names if (rank := rank_of_loss(name)) is not None}
    surest = min(ranks.values(), default=0)
    found = [name for name, rank in ranks.items() if rank == surest]
    trained = [chosen[LOSS]] if LOSS in chosen else _main(_by_base(found, sizes, is_of_evaluation=False))
    losses = {shown_name(name): name for name in reversed(trained)}
    evaluated = [chosen[EVALUATION]] if EVALUATION in chosen else _main(_by_base(found, sizes, is_of_evaluation=True))
    if LOSS in chosen and EVALUATION not in chosen and not evaluated:
        others = [name for name in names if rank_of_loss(name) is not None]
        evaluated = _main(_by_base(others, sizes, is_of_evaluation=True))
    only = next(iter(losses)) if len(losses) == 1 else ""
    pairs = tuple(Evaluated(name, only if only and len(evaluated) == 1 else shown_name(name)) for name in evaluated)
    return dict(reversed(losses.items())), pairs


def _by_base(names: Sequence[str], sizes: Mapping[str, int], *, is_of_evaluation: bool) -> dict[tuple[str, ...], str]:
    """Return one series for each loss: of several ways to log it that with the most points.

    Of evaluations it is the one with a point for each evaluation.
    """
    found: dict[tuple[str, ...], str] = {}
    for name in names:
        words = words_of(name)
        if bool(_EVALUATED.intersection(words)) != is_of_evaluation:
            continue
        base = tuple(word for word in words if word not in _WAYS | _TRAINED | _EVALUATED)
        other = found.get(base)
        if other is None or _goes_before(name, other, sizes, is_of_evaluation=is_of_evaluation):
            found[base] = name
    return found


def _goes_before(name: str, other: str, sizes: Mapping[str, int], *, is_of_evaluation: bool) -> bool:
    if is_of_evaluation:
        return "step" not in words_of(name) and "step" in words_of(other)
    return sizes.get(name, 0) > sizes.get(other, 0)


def _main(by_base: Mapping[tuple[str, ...], str]) -> list[str]:
    """Return the whole loss, or its totals; without any the first few."""
    whole = [name for base, name in by_base.items() if len(base) <= 1 and set(base) <= _LOSS]
    totals = [name for base, name in by_base.items() if _TOTAL.intersection(base)]
    return whole[:1] or totals[:1] or list(by_base.values())[:MOST_LOSSES]


def _has_several_aims(names: Sequence[str], losses: Mapping[str, str]) -> bool:
    if any(_EARNED.intersection(words_of(name)) for name in names):
        return True
    words = [set(words_of(column)) for column in losses.values()]
    letters = {letter for found in words for letter in found & {"d", "g"}}
    return any(found & _SEVERAL_AIMS for found in words) or len(letters) == 2


def shown_name(name: str) -> str:
    """Return the name under which a loss is judged: that of the column without words for training and evaluation."""
    parts = [part for part in re.split(r"([^A-Za-z0-9]+)", name.replace("'s ", " ")) if part]
    kept = [part for part in parts if part.lower() not in _TRAINED | _EVALUATED | {"step", "epoch"}]
    found = re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9]+$", "", "".join(kept))
    return re.sub(r"[^A-Za-z0-9]{2,}", lambda match: match[0][0], found) or name
