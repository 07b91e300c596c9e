"""TensorBoard's event files: each folder is a run, but folders for the parts of one run belong together.

Keras writes `logs/train` and `logs/validation`; PyTorch's `add_scalars("loss", {"train": ..., "val": ...})` writes
`loss_train` and `loss_val`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trackside.imported.event_records import read_events
from trackside.imported.format import Format, Groups, each_folder
from trackside.imported.log import Log, LogFile, Series
from trackside.imported.names import is_evaluation, is_training, words_of

_OF_TRANSFORMERS = frozenset({"train/loss", "train/epoch"})


def _is_ours(file: LogFile) -> bool:
    return "tfevents" in file.name.rpartition("/")[2] and file.size > 0


def _group(files: Sequence[LogFile]) -> Groups:
    folders = each_folder(files)
    found: Groups = {}
    for folder, own in folders.items():
        found.setdefault(_run_of(folder, folders), []).extend(own)
    return found


def _run_of(folder: str, folders: Groups) -> str:
    """Return the folder of the run that a folder belongs to: the one above, if it holds a part of a run."""
    above, _, last = folder.rpartition("/")
    if not _is_part(last):
        return folder
    brothers = [one for one in folders if one.rpartition("/")[0] == above and one != folder]
    kinds = {is_evaluation(one.rpartition("/")[2]) for one in (*brothers, folder) if _is_part(one.rpartition("/")[2])}
    return (above or ".") if len(kinds) == 2 or (above or ".") in folders else folder


def _is_part(name: str) -> bool:
    """Return True for the name of a folder with a part of a run: `train`, `validation`, `loss_val`."""
    return (is_evaluation(name) or is_training(name)) and len(words_of(name)) <= 3


def _read(name: str, files: Sequence[LogFile], series: Series) -> Iterable[Log]:
    for file in sorted(files, key=lambda one: one.name):
        folder = file.name.rpartition("/")[0] or "."
        last = folder.rpartition("/")[2]
        prefix = "" if folder == name else ("validation/" if is_evaluation(last) else "train/")
        read_events(file, series, prefix=prefix)
    points = series.points()
    source = files[0].where.rpartition("/")[0] or files[0].where
    yield Log(
        source.rpartition("/")[2] if name == "." else name,
        source,
        FORMAT.name,
        points,
        has_steps=True,
        hides_nan=points.keys() >= _OF_TRANSFORMERS,
        damage=series.all_damage(),
        left_out=len(series.left_out),
        tensors=series.tensor_points(),
    )


FORMAT = Format("TensorBoard event files", 10, _is_ours, _read, _group)
