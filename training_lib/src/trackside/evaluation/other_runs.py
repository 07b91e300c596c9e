"""The runs that rules compare the judged run with. Each is opened once and read as far as it has been written."""

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
    """The other runs that the rules name.

    rules   the rules of one evaluator
    stores  opens the store at a path or an s3:// URI
    """

    def __init__(self, rules: Iterable[Rule], stores: Callable[[str], Store]) -> None:
        self._stores = stores
        self._wanted = tuple(dict.fromkeys(name for rule in rules for name in names_in(rule)))
        self._trials: dict[str, Trial] = {}
        self._logged: set[str] = set()

    def refresh(self) -> None:
        """Read the new steps of each run that has not ended.

        A run that cannot be read is logged once, and tried again at each call.
        """
        for name in self._wanted:
            try:
                self._read_new_steps(name)
            except (StorageError, RunNotFoundError) as error:
                if name not in self._logged:
                    _logger.warning("The run %s, to compare with, cannot be read: %s", name, error)
                self._logged.add(name)

    def of(self, rule: Rule) -> Mapping[str, TensorSource]:
        """Return the readable runs that a rule compares with, by name."""
        return {name: self._trials[name] for name in names_in(rule) if name in self._trials}

    def _read_new_steps(self, name: str) -> None:
        trial = self._trials.get(name)
        if trial is None:
            self._trials[name] = open_trial(self._stores(name))
        elif not trial.has_ended:
            trial.refresh()


def names_in(rule: Rule) -> tuple[str, ...]:
    """Return the names of the runs that a rule compares with."""
    names = getattr(rule, rule.other_runs).split(",") if rule.other_runs else ()
    return tuple([name.strip() for name in names if name.strip()])
