"""dead-relu, as Amazon documents it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.findings import finding_of
from trackside.rules.role_collections import without_members
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import EVERY_COLLECTION, SavedValue, selected, values_at_step
from trackside.situation.layer_units import share_within
from trackside.trial.window import Window

_DEFAULT_REGEX = ".*relu_output"  # the names of Amazon's own fork of MXNet
_ROLE = "relu_outputs"


@dataclass(frozen=True)
class DocumentedDeadRelu(Rule):
    """Most units of a ReLU layer put out nothing at a step.

    Documented: a unit is dead where it is active (value > 0) in less than `threshold_inactivity` percent; fires where
    more than `threshold_layer` percent of a layer's units are dead. Not documented is what a unit is, and over what its
    activity is counted: here a feature, of images a channel, over all samples and positions of the step's batch.
    Left at its default, `tensor_regex` means the outputs of ReLU modules, under any name; names that match
    count too.
    """

    rule_id = "dead-relu"
    presets = (AWS_DOCS, AWS_SDK)
    judges_until_found = True
    watches = EVERY_COLLECTION
    needs = (CollectionRequest(_ROLE, Schedule(500)),)
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.DEAD_UNITS, Cause.LEARNING_RATE_TOO_HIGH)
    what_to_do = ("Lower the learning rate, or use LeakyReLU in the layers named above.",)

    tensor_regex: str = parameter(_DEFAULT_REGEX, "regexes of outputs of ReLU layers, separated by commas")
    threshold_inactivity: float = parameter(
        1.0, "share of active values in percent below which a unit is dead", minimum=0, maximum=100
    )
    threshold_layer: float = parameter(
        50.0, "share of dead units in percent above which it fires", minimum=0, maximum=100
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per layer, the deadest first."""
        found = [self._judge(window, saved) for saved in values_at_step(window, self._names(window))]
        return sorted((finding for finding in found if finding), key=lambda finding: -finding.observed)

    def lacks(self, window: Window) -> str:
        """Name the missing input: outputs of ReLU."""
        return "" if any(values_at_step(window, self._names(window))) else "outputs of ReLU layers"

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return a clause for a model without ReLU, unless the user named other tensors."""
        return without_members((_ROLE,), facts) if self.tensor_regex == _DEFAULT_REGEX else ""

    def _names(self, window: Window) -> tuple[str, ...]:
        role = _ROLE if self.tensor_regex == _DEFAULT_REGEX else ""
        return selected(window, collection_names=role, tensor_regex=self.tensor_regex)

    def _judge(self, window: Window, saved: SavedValue) -> Finding | None:
        active = share_within(saved.value, above=0.0, below=math.inf)
        if active is None:
            return None
        dead = 100 * float((active < self.threshold_inactivity).mean())
        if not dead > self.threshold_layer:
            return None
        return finding_of(
            window, saved.tensor, "dead units in %", dead, above=self.threshold_layer, worker=saved.worker
        )
