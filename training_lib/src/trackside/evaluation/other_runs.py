"""The runs that rules compare the judged one with: opened once, read as far as they are there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from trackside.contracts.errors import RunNotFoundError, StorageError
from trackside.rules.rule import Rule
from trackside.storage.store import Store
from trackside.trial.trial import Trial, open_trial
from trackside.trial.window import TensorSource

_logger = logging.getLogger(__name__)


class OtherRuns:
    """The other runs that these rules name. `stores` opens a store at a path or s3:// URI."""

    def __init__(self, rules: Iterable[Rule], stores: Callable[[str], Store]) -> None:
        self._stores = stores
        self._wanted = tuple(dict.fromkeys(name for rule in rules for name in names_in(rule)))
        self._trials: dict[str, Trial] = {}
        self._told: set[str] = set()

    def refresh(self) -> None:
        """Reads on in each run that has not ended. One that cannot be read is said once, and tried again each time."""
        for name in self._wanted:
            try:
                self._read_on(name)
            except (StorageError, RunNotFoundError) as error:
                if name not in self._told:
                    _logger.warning("The run %s, to compare with, cannot be read: %s", name, error)
                self._told.add(name)

    def of(self, rule: Rule) -> Mapping[str, TensorSource]:
        """The runs that a rule asked for, as far as they can be read."""
        return {name: self._trials[name] for name in names_in(rule) if name in self._trials}

    def _read_on(self, name: str) -> None:
        trial = self._trials.get(name)
        if trial is None:
            self._trials[name] = open_trial(self._stores(name))
        elif not trial.has_ended:
            trial.refresh()


def names_in(rule: Rule) -> tuple[str, ...]:
    """The runs that a rule was given to compare with."""
    names = getattr(rule, rule.other_runs).split(",") if rule.other_runs else ()
    return tuple([name.strip() for name in names if name.strip()])
