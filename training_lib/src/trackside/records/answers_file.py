"""Read and write `answers/<worker>.json`: answers of a language model, where the user has allowed to keep them.

{"version": 1, "steps": [{"step": 40, "answers": [{"prompt": "2 + 2 =", "answer": "5", "reward": 0.0}]}]}

Oldest step first; in a step the least reward first. Texts are cut.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.run.answers import MOST_CHARACTERS, MOST_OF_A_STEP, MOST_STEPS, KeptAnswer, KeptAnswers
from trackside.contracts.run_layout import answers_key
from trackside.records.untrusted_json import MOST_JSON_BYTES, UntrustedJson
from trackside.storage.store import Store

VERSION = 1


def encode_answers(steps: Sequence[KeptAnswers]) -> bytes:
    """Return the file's content."""
    listed = [{"step": one.step, "answers": [vars(answer) for answer in one.answers]} for one in steps]
    return json.dumps({"version": VERSION, "steps": listed}).encode("ascii")


def decode_answers(data: bytes, *, key: str) -> tuple[KeptAnswers, ...]:
    """Return the answers, oldest step first. Unknown fields are ignored.

    Raises:
        RecordError: The file is no such list.
    """
    document = UntrustedJson.parse(data, key=key)
    if document.count("version") != VERSION:
        raise document.error(f"is of version {document.count('version')}; this Trackside reads {VERSION}")
    return tuple(
        KeptAnswers(each.step("step"), tuple(map(_answer, each.objects("answers")[: 2 * MOST_OF_A_STEP])))
        for each in document.objects("steps")[:MOST_STEPS]
    )


def read_answers(store: Store, worker: str) -> tuple[KeptAnswers, ...]:
    """Return the answers that a worker kept, oldest step first; () if it kept none.

    Args:
        store: The store of the run's answers.
        worker: Its name.

    Raises:
        RecordError: The file is damaged.
        StorageError: The store failed.
    """
    key = answers_key(worker)
    try:
        return decode_answers(store.get(key, length=MOST_JSON_BYTES + 1), key=key)
    except KeyNotFoundError:
        return ()


def _answer(found: UntrustedJson) -> KeptAnswer:
    return KeptAnswer(
        found.text("prompt")[-MOST_CHARACTERS:], found.text("answer")[:MOST_CHARACTERS], found.number("reward")
    )
