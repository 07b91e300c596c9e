"""The tensors of saved steps, fetched and decoded: by a template if records are alike, else in full."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import KeyNotFoundError, NotAFileError, RecordError
from trackside.records.record_template import RecordTemplate
from trackside.records.step_file import fetch_record
from trackside.records.tfevents import decode_record
from trackside.storage.store import Store
from trackside.trial.steps.fetched_steps import FetchedSteps
from trackside.trial.steps.saved_step import Layout, SavedStep
from trackside.trial.steps.step_index import StepIndex

Array = NDArray[np.generic]


class Found(NamedTuple):
    """A tensor, and its step as the index has it now: see `RecordReader.again`."""

    saved: SavedStep
    value: Array


class RecordReader:
    """Reads records of one run. For an unreadable record it reads the step's index once more, then reports the damage.

    Safe to use from several threads.
    """

    def __init__(self, store: Store, index: StepIndex, *, report: Callable[[RecordError], None]) -> None:
        self._store, self._index, self._report = store, index, report
        self._steps = FetchedSteps(store)
        self._templates: dict[Layout, dict[str, RecordTemplate | None]] = {}
        self._mending = threading.Lock()

    def fetch(self, saved: SavedStep, *, start: int, length: int) -> bytes:
        """Return the bytes of records of a step. Errors: those of the store."""
        return self._steps.fetch(saved, start=start, length=length)

    def value(self, saved: SavedStep, name: str) -> Array:
        """Return the whole tensor. The step must hold it. Errors: `RecordError`, reported."""
        start, length = saved.layout.records[name]
        try:
            data = self.fetch(saved, start=start, length=length)
            return self.decode(saved, name, data)
        except KeyNotFoundError as error:
            return self.again(saved, name, missing(saved, error)).value
        except RecordError as damage:
            return self.again(saved, name, damage).value

    def decode(self, saved: SavedStep, name: str, data: bytes | memoryview) -> Array:
        """Return the tensor in its whole record. Errors: `RecordError`, not yet reported."""
        layout = saved.layout
        templates = self._templates.get(layout)
        if templates is None:
            templates = self._templates[layout] = {}
        template = templates.get(name)
        if template is not None:
            value = template.decode(data, step=saved.step, mode_step=saved.mode_step)
            if value is not None:
                return value
        key, offset = saved.event_key, saved.layout.records[name][0]
        content = bytes(data)
        record = decode_record(content, key=key, offset=offset)
        if record.name != name:
            raise RecordError(key, offset, f"holds {record.name!r} where the index says {name!r}.")
        if template is None:
            if name in templates:  # the second of its kind: more are likely
                templates[name] = RecordTemplate.of(content, key=key, offset=offset)
            templates.setdefault(name)
        return record.value

    def template(self, saved: SavedStep, name: str, data: bytes) -> RecordTemplate | None:
        """Return a decoder of many records like this one; None if the record is damaged or of no such kind."""
        templates = self._templates.setdefault(saved.layout, {})
        if templates.get(name) is None:
            try:
                found = RecordTemplate.of(data, key=saved.event_key, offset=saved.layout.records[name][0])
            except RecordError:
                return None
            templates[name] = found if found is not None and found.name == name else None
        return templates[name]

    def again(self, saved: SavedStep, name: str, damage: RecordError) -> Found:
        """Return the tensor by the step's present index: the step may have been written again after the index was read.

        Errors: `RecordError`, reported.
        """
        self._steps.forget(saved.event_key)
        with self._mending:
            newer = self._index.reread(saved.step, saved.worker)
        if newer is None or name not in newer.layout.records:
            self._report(damage)
            raise damage
        start, length = newer.layout.records[name]
        try:
            data = fetch_record(self._store, newer.event_key, start=start, length=length)
            return Found(newer, self.decode(newer, name, data))
        except KeyNotFoundError as error:
            lost = missing(newer, error)
            self._report(lost)
            raise lost from error
        except RecordError as error:
            self._report(error)
            raise


def missing(saved: SavedStep, error: KeyNotFoundError | None = None) -> RecordError:
    """Return the error for an event file that is missing or no file. `error` is the store's."""
    if isinstance(error, NotAFileError):
        return RecordError(saved.event_key, 0, str(error))
    return RecordError(saved.event_key, 0, "the index names this event file, but it is not there.")
