"""The tensors that a rule needs to judge a step: declared first, waited for, then fetched."""

from __future__ import annotations

from collections.abc import Iterable, KeysView, ValuesView

from smdebug import not_offered
from smdebug.core.tensor import Tensor
from smdebug.exceptions import TensorUnavailable
from smdebug.trials.trial import Trial


class RequiredTensorsForTrial:
    """The tensors and steps of one trial that a rule needs."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.logger = trial.logger
        self._steps: dict[str, list[int]] = {}
        self._tensors: dict[str, Tensor] = {}

    def add(self, name: str, steps: Iterable[int], should_match_regex: bool = False) -> None:
        """Add steps of a tensor, or of all tensors that match a regex.

        Raises:
            TensorUnavailable: The trial does not have that name.
        """
        if not should_match_regex and not self.trial.has_tensor(name):
            raise TensorUnavailable(name)
        for each in self.trial.tensor_names(regex=[name]) if should_match_regex else [name]:
            self._steps.setdefault(each, []).extend(steps)
            self._tensors[each] = self.trial.tensor(each)

    def get_tensor_steps(self, name: str) -> list[int]:
        return self._steps[name]

    def get_names(self) -> KeysView[str]:
        return self._steps.keys()

    def get(self) -> ValuesView[Tensor]:
        return self._tensors.values()

    def clear(self) -> None:
        self._steps.clear()
        self._tensors.clear()

    def fetch(self) -> None:
        """Wait for the steps, then fetch each value. Raises the errors of `wait_for_steps` and `Tensor.value`."""
        self.trial.wait_for_steps(sorted({step for steps in self._steps.values() for step in steps}))
        for name, steps in self._steps.items():
            for step in steps:
                self._tensors[name].value(step)


class RequiredTensors:
    """The tensors and steps of all of a rule's trials. `trial` None stands for its base trial."""

    def __init__(self, base_trial: Trial, other_trials: Iterable[Trial] | None) -> None:
        self.base_trial = base_trial
        self._per_trial = {trial: RequiredTensorsForTrial(trial) for trial in (base_trial, *(other_trials or ()))}

    def add(
        self, name: str, steps: Iterable[int], trial: Trial | None = None, should_match_regex: bool = False
    ) -> None:
        """Add steps of a tensor, or of all tensors that match a regex.

        Raises:
            TensorUnavailable: The trial does not have that name.
        """
        self._of(trial).add(name, steps, should_match_regex=should_match_regex)

    def get_tensor_steps(self, name: str, trial: Trial | None = None) -> list[int]:
        return self._of(trial).get_tensor_steps(name)

    def get_names(self, trial: Trial | None = None) -> KeysView[str]:
        return self._of(trial).get_names()

    def get(self, trial: Trial | None = None) -> ValuesView[Tensor]:
        return self._of(trial).get()

    def clear(self) -> None:
        for required in self._per_trial.values():
            required.clear()

    def fetch(self) -> None:
        for required in self._per_trial.values():
            required.fetch()

    def _of(self, trial: Trial | None) -> RequiredTensorsForTrial:
        return self._per_trial[self.base_trial if trial is None else trial]


__getattr__ = not_offered.attribute_of(__name__)
