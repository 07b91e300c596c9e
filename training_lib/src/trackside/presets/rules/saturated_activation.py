"""saturated-activation, as Amazon documents it."""

from __future__ import annotations

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

_DEFAULT_REGEX = ".*tanh_input|.*sigmoid_input"
_ROLE = "saturating_inputs"


@dataclass(frozen=True)
class DocumentedSaturatedActivation(Rule):
    """Most units of a tanh or sigmoid layer get inputs at which the activation is flat.

    Documented: a node is saturated where less than `threshold_inactivity` percent of its inputs lie between the two
    thresholds of its activation; fires where more than `threshold_layer` percent of a layer's nodes are. The thresholds
    are where the derivative is about 1e-7. The kind of activation comes from the hook's facts about the module, and
    else from the tensor's name, as in smdebug: sigmoid if the name contains it, tanh otherwise. A node is a feature,
    of images a channel, over all samples and positions of the step's batch. Left at its default, `tensor_regex` means
    the inputs of tanh and sigmoid modules, under any name; names that match count too.
    """

    rule_id = "saturated-activation"
    presets = (AWS_DOCS, AWS_SDK)
    judges_until_found = True
    watches = EVERY_COLLECTION
    needs = (CollectionRequest(_ROLE, Schedule(500)),)
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.SATURATED_UNITS, Cause.BAD_INITIALIZATION)
    what_to_do = ("Initialise smaller (Xavier), and normalise the inputs.",)

    collection_names: str = parameter("", "collections of inputs of activations, separated by commas")
    tensor_regex: str = parameter(_DEFAULT_REGEX, "regexes of inputs of tanh and sigmoid, separated by commas")
    threshold_tanh_min: float = parameter(-9.4999, "input below which tanh is flat", maximum=0)
    threshold_tanh_max: float = parameter(9.4999, "input above which tanh is flat", minimum=0)
    threshold_sigmoid_min: float = parameter(-23.0, "input below which sigmoid is flat", maximum=0)
    threshold_sigmoid_max: float = parameter(16.99999, "input above which sigmoid is flat", minimum=0)
    threshold_inactivity: float = parameter(
        1.0,
        "share of inputs in percent between the thresholds, below which a unit is saturated",
        minimum=0,
        maximum=100,
    )
    threshold_layer: float = parameter(
        50.0, "share of saturated units in percent above which it fires", minimum=0, maximum=100
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per layer, the most saturated first."""
        found = [self._judge(window, saved) for saved in values_at_step(window, self._names(window))]
        return sorted((finding for finding in found if finding), key=lambda finding: -finding.observed)

    def lacks(self, window: Window) -> str:
        """Name the missing input: inputs of such activations."""
        return "" if any(values_at_step(window, self._names(window))) else "inputs of tanh or sigmoid layers"

    def nothing_to_judge(self, facts: ModelFacts) -> str:
        """Return a clause for a model without tanh and sigmoid, unless the user named other tensors."""
        is_usual = self.tensor_regex == _DEFAULT_REGEX and not self.collection_names.strip()
        return without_members((_ROLE,), facts) if is_usual else ""

    def _names(self, window: Window) -> tuple[str, ...]:
        is_usual = self.tensor_regex == _DEFAULT_REGEX and not self.collection_names.strip()
        collections = _ROLE if is_usual else self.collection_names
        return selected(window, collection_names=collections, tensor_regex=self.tensor_regex)

    def _judge(self, window: Window, saved: SavedValue) -> Finding | None:
        low, high = self._limits(window, saved.tensor)
        within = share_within(saved.value, above=low, below=high)
        if within is None:
            return None
        saturated = 100 * float((within < self.threshold_inactivity).mean())
        if not saturated > self.threshold_layer:
            return None
        return finding_of(
            window, saved.tensor, "saturated units in %", saturated, above=self.threshold_layer, worker=saved.worker
        )

    def _limits(self, window: Window, tensor: str) -> tuple[float, float]:
        module = window.facts.module_of(tensor) if window.facts else None
        activation = module.activation if module else ""
        if activation == "sigmoid" or (activation != "tanh" and "sigmoid" in tensor.lower()):
            return self.threshold_sigmoid_min, self.threshold_sigmoid_max
        return self.threshold_tanh_min, self.threshold_tanh_max
