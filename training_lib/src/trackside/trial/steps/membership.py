"""The members of each collection: by name or by regex, from the run's collections files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from trackside.contracts.errors import KeyNotFoundError, NotAFileError, RecordError
from trackside.contracts.name_pattern import NamePattern, name_pattern, problem_of
from trackside.contracts.run_layout import COLLECTIONS_PREFIX, collections_key, parse_collections_key
from trackside.records.collections_file import decode_collections
from trackside.records.untrusted_json import MOST_JSON_BYTES
from trackside.storage.store import Store

# smdebug's PyTorch collections; used until the run's own collections file is read.
DEFAULT_REGEXES: Mapping[str, tuple[str, ...]] = {
    "weights": (r"^(?!gradient).*weight",),
    "biases": (r"^(?!gradient).*bias",),
    "gradients": (r"^gradient",),
    "losses": (r"[Ll]oss_(?!input).*output",),
}
WEIGHTS, _GRADIENT = "weights", "gradient/"
# Collections of the always-on statistics, and `all`, in every run.
_RECORDED_REGEXES: Mapping[str, tuple[str, ...]] = {"hyperparameters": (r"^hyperparameters/",), "all": (r"",)}


class Membership:
    """The collections of a run. Each worker's collections file is read once, and again after `read_again`."""

    def __init__(self, store: Store, *, report: Callable[[RecordError], None]) -> None:
        self._store = store
        self._report = report
        self._seen: set[str] = set()
        self._named: dict[str, set[str]] = {}
        self._regexes: dict[str, list[NamePattern]] = {}
        self.worker_count: int | None = None

    def read_again(self, worker: str) -> None:
        """Make the next `refresh` read a worker's file again, because it has been replaced."""
        self._seen.discard(collections_key(worker))

    @property
    def is_whole(self) -> bool:
        """True once the files of all workers have been read."""
        return self.worker_count is not None and len(self._seen) >= self.worker_count

    @property
    def workers(self) -> frozenset[str]:
        """The workers with a file that has been read."""
        return frozenset(worker for key in self._seen if (worker := parse_collections_key(key)))

    def refresh(self) -> bool:
        """Read new collections files. Return True if any was new."""
        new = [key for key in self._store.list(COLLECTIONS_PREFIX) if parse_collections_key(key) and self._is_new(key)]
        for key in new:
            try:
                self._read(key)
            except NotAFileError as error:
                self._report(RecordError(key, 0, str(error)))
            except KeyNotFoundError:  # removed since it was listed
                continue
            except RecordError as error:
                self._report(error)
            self._seen.add(key)
        return bool(new)

    def members(self, collection: str, names: Iterable[str]) -> tuple[str, ...]:
        """Return the members of the collection among `names`, sorted.

        A weight is what an optimizer holds: a parameter beside its gradient is one whatever its name, unless that is
        the name of a bias.
        """
        among = frozenset(names)
        members = self._named_members(collection, among)
        if collection == WEIGHTS:
            members |= _parameters(among) - self._named_members("biases", among)
        return tuple(sorted(members))

    def _named_members(self, collection: str, names: frozenset[str]) -> frozenset[str]:
        """Return the members by the collections files: by name, or by regex."""
        named = self._named.get(collection, ())
        patterns = self._regexes.get(collection)
        if patterns is None:
            regexes = DEFAULT_REGEXES.get(collection, _RECORDED_REGEXES.get(collection, ()))
            patterns = [name_pattern(regex) for regex in regexes]
        return frozenset(n for n in names if n in named or any(pattern.search(n) for pattern in patterns))

    def known(self) -> frozenset[str]:
        """Return the names of all collections."""
        return frozenset({*DEFAULT_REGEXES, *self._regexes})

    def _is_new(self, key: str) -> bool:
        return key not in self._seen

    def _read(self, key: str) -> None:
        found = decode_collections(self._store.get(key, length=MOST_JSON_BYTES + 1), key=key)
        self.worker_count = max(found.num_workers, self.worker_count or 0)
        for collection in found.collections:
            self._named.setdefault(collection.name, set()).update(collection.tensor_names)
            self._regexes[collection.name] = [self._compile(key, regex) for regex in collection.include_regex]

    def _compile(self, key: str, regex: str) -> NamePattern:
        try:
            return name_pattern(regex)
        except re.error as error:
            raise RecordError(key, 0, f"{regex!r} {problem_of(error)}.") from error


def _parameters(names: frozenset[str]) -> frozenset[str]:
    """Return the names with a gradient among the others."""
    return names.intersection(name.removeprefix(_GRADIENT) for name in names if name.startswith(_GRADIENT))
