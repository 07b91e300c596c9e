"""A sink that writes verdicts into the run, as lines of JSON: `rule-output/verdicts.jsonl`, each verdict once."""

from __future__ import annotations

import json
from collections.abc import Sequence

from trackside.contracts.errors import KeyNotFoundError, StorageError
from trackside.contracts.run_layout import VERDICTS_KEY
from trackside.contracts.verdict import Verdict
from trackside.evaluation.sinks.sink import UndeliveredError
from trackside.storage.store import Store

MOST_VERDICTS_BYTES = 64 << 20  # a hundred thousand verdicts; more is not read, nor written


class JsonLinesSink:
    """Adds verdicts to the run's file of verdicts. `store` is rooted at the run's `rule-output`.

    Each `emit` writes the whole file anew, so that no reader sees half a line; verdicts are few. A verdict with an id
    that the file has is not written again. One evaluator judges a run: two that write at the same time could overwrite
    one another.
    """

    name = "json-lines"

    def __init__(self, store: Store) -> None:
        self._store = store

    def emit(self, verdicts: Sequence[Verdict]) -> None:
        """Append the new verdicts. Errors: `UndeliveredError`; then the file is unchanged."""
        try:
            written = self._read()
            seen = _ids(written)
            new = {verdict.verdict_id: verdict for verdict in verdicts if verdict.verdict_id not in seen}
            if new:
                lines = "".join(f"{verdict.to_json()}\n" for verdict in new.values())
                self._store.put(VERDICTS_KEY, written + lines.encode())
        except StorageError as error:
            raise UndeliveredError(str(error), verdicts) from error

    def _read(self) -> bytes:
        try:
            written = self._store.get(VERDICTS_KEY, length=MOST_VERDICTS_BYTES + 1)
        except KeyNotFoundError:
            return b""
        if len(written) > MOST_VERDICTS_BYTES:
            raise StorageError(f"{VERDICTS_KEY} in {self._store.uri} is larger than {MOST_VERDICTS_BYTES} bytes.")
        return written if not written or written.endswith(b"\n") else written + b"\n"


def _ids(written: bytes) -> set[str]:
    return {found for line in written.splitlines() if (found := _id(line))}


def _id(line: bytes) -> str:
    try:
        return str(json.loads(line)["id"])
    except (ValueError, KeyError, TypeError):  # a line that is no verdict stays in the file, and matches no verdict
        return ""
