"""Lines that a training printed: the evaluation logs of XGBoost and LightGBM, and any line with "loss 0.123" in it.

A line is a row. Its numbers are those with a name before them: `loss: 0.5`, `val_loss=0.6`, `lr 1e-3`. A progress bar
that is drawn again and again counts once an epoch (Keras), or with the step that it shows (tqdm).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from trackside.imported.format import PRINTED, Format
from trackside.imported.log import Log, LogFile, Series
from trackside.imported.names import is_evaluation, is_training, rank_of_loss, words_of

MOST_LINE_CHARACTERS = 2000
_ENDINGS = (".log", ".txt", ".out", ".err", "stdout", "stderr")
_WORTH = re.compile(
    rb"loss|epoch|rew|nll|perplexity|rmse|logloss|mae|mse|error|l1:|l2:|entropy|(?:train|valid|eval|test)[^ ]*-[a-z]",
    re.IGNORECASE,
)
_NUMBER = r"[-+]?(?:\d{1,20}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,4})?|[-+]?(?:[nN]a[nN]|[iI]nf(?:inity)?)"
_WORD = r"[A-Za-z_][A-Za-z_0-9./'@-]{0,60}"
_PAIR = re.compile(
    rf"(?P<name>{_WORD}(?: {_WORD}){{0,2}})['\"]?(?P<between> {{0,40}}[:=|]? {{0,8}})(?:tensor\(|\[ ?|\(|['\"])?"
    rf"(?P<number>{_NUMBER})(?![\w.])"
)
_ROUND = re.compile(r"\[(\d{1,12})\]\s")
_BOOSTED = re.compile(rf"(?P<name>[^\s:][^\t:]{{0,80}}):\s?(?P<number>{_NUMBER})(?=\s|$)")
_PART = re.compile(r"(?<![\d.])(\d{1,12})/(\d{1,12})(?![\d/])")
_ESCAPE = re.compile(rb"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_COUNTED = {"epoch": "epoch", **dict.fromkeys(("step", "steps", "iter", "iteration", "update"), "step")}
_OF_TRANSFORMERS = frozenset({"loss", "grad_norm", "learning_rate", "epoch"})
_BAR, _KERAS = re.compile(r"it/s|s/it|\d{2}<"), re.compile(r"s/step|s/epoch|━|\[=|ETA|=\]")
_KNOWN = frozenset({"lr", "loss", "rate", "acc", "accuracy", "gnorm", "norm", "ppl", "perplexity", "nll"})


def _is_ours(file: LogFile) -> bool:
    return file.name.lower().endswith(_ENDINGS)


def _read(name: str, files: Sequence[LogFile], series: Series) -> Iterable[Log]:
    (file,) = files
    if b"\x00" in file.head():
        yield Log(name, file.where, FORMAT.name, {}, damage=("it is no text",))
        return
    boosted: set[str] = series.known.setdefault(file.name, set())
    for line in _lines(file, series):
        numbers = _boosted(line)
        if numbers:
            boosted.add("xgboost" if any("-" in key for key, _ in numbers[1:]) else "lightgbm")
        series.add_row(numbers or _numbers(line))
    framework = next(iter(boosted)) if len(boosted) == 1 else ""
    form = {"xgboost": "lines of XGBoost", "lightgbm": "lines of LightGBM"}.get(framework, FORMAT.name)
    points = series.points()
    yield Log(
        name,
        file.where,
        form,
        points,
        framework=framework,
        hides_nan=points.keys() >= _OF_TRANSFORMERS,
        left_out=len(series.left_out),
    )


def _lines(file: LogFile, series: Series) -> Iterator[str]:
    """Yield the lines that may hold a loss. What a bar drew over is a line of its own."""
    rest = b""
    for chunk in series.unread(file):
        data = rest + chunk
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        rest = data[end:][-MOST_LINE_CHARACTERS:]
        series.has_read(file, len(data) - len(rest))
        yield from _worth(data[:end])
    if series.is_over:
        series.has_read(file, len(rest))
        yield from _worth(rest)


def _worth(data: bytes) -> Iterator[str]:
    for line in data.replace(b"\x08", b"\n").splitlines():
        if line and _WORTH.search(line, 0, MOST_LINE_CHARACTERS):
            yield _ESCAPE.sub(b"", line[:MOST_LINE_CHARACTERS]).decode("utf-8", "replace")


def _boosted(line: str) -> list[tuple[str, float]]:
    """Return the numbers of a line of XGBoost or LightGBM: `[10]  train-rmse:0.5`; none of another line."""
    found = _ROUND.search(line, 0, 64)
    if found is None:
        return []
    pairs = [(match["name"].strip(), float(match["number"])) for match in _BOOSTED.finditer(line, found.end())]
    is_theirs = pairs and all("-" in name or "'s " in name for name, _ in pairs)
    return [("round", float(found[1])), *((_boosted_name(name), value) for name, value in pairs)] if is_theirs else []


def _boosted_name(name: str) -> str:
    """Return `training/l2` for LightGBM's `training's l2`."""
    return name.replace("'s ", "/")


def _numbers(line: str) -> list[tuple[str, float]]:
    part = _PART.search(line)
    if part is not None and _KERAS.search(line) and not _BAR.search(line) and int(part[1]) < int(part[2]):
        return []  # a bar that is drawn again: its loss is a running mean
    found: dict[str, float] = {}
    split = ""
    end = 0
    for match in _PAIR.finditer(line):
        split = _split_in(line[end : match.end("name")]) or split
        end = match.end()
        name = _name(match["name"], is_named=bool(match["between"].strip()))
        if name and (match["between"] or name in _COUNTED.values()):
            own = f"{split}/{name}" if split and rank_of_loss(name) is not None and not _split_in(name) else name
            found.setdefault(own, float(match["number"]))
    if part is not None and _BAR.search(line) and "step" not in found:
        found["step"] = float(part[1])
    return list(found.items())


def _split_in(text: str) -> str:
    """Return `test` or `train` by the last word for one of them; "" without any."""
    for word in reversed(words_of(text)):
        if is_evaluation(word):
            return "test"
        if is_training(word):
            return "train"
    return ""


def _name(text: str, *, is_named: bool) -> str:
    """Return the words of a name that belong to it; "" where a number only follows a word."""
    words = text.split(" ")
    last = words[-1].strip("'\"")
    counted = _COUNTED.get(last.lower())
    if counted:
        return counted
    kept = [last]
    for word in reversed(words[:-1]):
        if not (is_evaluation(word) or is_training(word) or word.lower() in {"learning", "average", "total", "grad"}):
            break
        kept.insert(0, word)
    is_known = bool(_KNOWN.intersection(words_of(last))) or rank_of_loss(last) is not None
    return " ".join(kept) if is_named or is_known else ""


FORMAT = Format(PRINTED, 90, _is_ours, _read, is_general=True)
