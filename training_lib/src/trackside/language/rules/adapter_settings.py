"""adapter-settings: an adapter that is not trained as it is used, or with a scale far outside of use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.observations import ADAPTERS, AdapterFacts
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.trial.window import Window

_OFF = "layers whose adapter is switched off"
_MERGED = "layers with a merged adapter"
_NOT_TRAINED = "layers that call an adapter which is not trained"
_UNUSED = "layers with a trained adapter that they do not call"
_FROZEN = "layers whose adapter was loaded for inference, and is trained"
_SCALE = "scale of the adapter"
_SENTENCES = {
    _OFF: "Adapters are switched off in the training: layers do not call them, and they get no gradient.",
    _MERGED: "Adapters are merged in the training: layers do not call them, and they get no gradient.",
    _NOT_TRAINED: "No adapter that layers call is trained: no optimizer holds its parameters, or they are frozen.",
    _UNUSED: "The trained adapter is not the active one: layers do not call it.",
    _FROZEN: "The trained adapter was loaded as one for inference, and another one is not trained.",
}


@dataclass(frozen=True)
class AdapterSettings(PyTorchRule):
    """An adapter is not trained as it is used, or its scale is far outside of use.

    Why it matters:
        An adapter that is opened again is frozen unless `is_trainable=True` says otherwise, one that was merged for
        samples and not taken out again gets no gradient, and with two of them the wrong one may be trained. The loss of
        what else is trained goes on, and what is saved is the adapter as it was. Its scale, lora_alpha / r, multiplies
        what it adds: 0 is no adapter, and an lora_alpha that was chosen for another rank, or for another rule of scale
        (use_rslora), is a learning rate that is too high or too low by that factor.

    How it decides:
        It reads the adapters of PEFT in the trained models, as steps end. It fires where

        1. all are switched off, or merged into the weights, and a step trains the model;
        2. an adapter is trained, and no layer calls it;
        3. one that was loaded for inference is trained, and one that was not is left out;
        4. no adapter that layers call is trained, while something else is;
        5. the scale of a trained adapter is 0, below `least` or above `most` in size.

        Further adapters that are not called, as a reference's, are silent.

    Example:
        ```python
        from trackside.language.rules.adapter_settings import AdapterSettings

        assert AdapterSettings().is_usual(2.0)
        assert not AdapterSettings().is_usual(256.0)
        ```

    References:
        - PEFT, issues 282, 3447 and 3580; `PeftModel.get_model_status`.
        - Kalajdzievski: A rank stabilization scaling factor for fine-tuning with LoRA (2023).
    """

    rule_id = "adapter-settings"
    code = "TS512"
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.ADAPTER_SETTINGS, Cause.FROZEN_PARAMETERS)
    suspects = (Suspect(Cause.FROZEN_PARAMETERS, only=(_NOT_TRAINED,)), Suspect(Cause.ADAPTER_SETTINGS))
    shows_its_cause = True
    what_to_do = (
        "Open it by PeftModel.from_pretrained(..., is_trainable=True), and print model.get_model_status().",
        "Call unmerge_adapter() and enable_adapter_layers() before the training goes on.",
        "Take an lora_alpha of once or twice the rank, and with use_rslora of about its square root.",
    )

    least: float = parameter(0.01, "scale below which an adapter adds nothing", minimum=0)
    most: float = parameter(64.0, "scale above which an adapter outweighs its layer", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for the gravest mistake."""
        facts = window.facts
        found = ADAPTERS.of(facts.program) if facts is not None else ()
        return [
            finding_of(
                window, one.name, measure, value, above=limit, since=facts.from_step if facts is not None else None
            )
            for one, measure, value, limit in list(self._mistakes(found))[:1]
        ]

    def is_usual(self, scaling: float) -> bool:
        """Return True if a scale is as adapters have it.

        Args:
            scaling: The factor of what an adapter adds.
        """
        return self.least <= abs(scaling) <= self.most

    def lacks(self, window: Window) -> str:
        """Return a clause if the hook recorded no adapter."""
        is_known = window.facts is not None and ADAPTERS.of(window.facts.program)
        return "" if is_known else "an adapter of PEFT in a trained model"

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what is wrong with which adapter."""
        lead = findings[0]
        if lead.measure != _SCALE:
            return _SENTENCES[lead.measure]
        return f"The adapter {lead.subject} has a scale of {lead.observed:.3g}, far outside of use."

    def _mistakes(self, found: Sequence[AdapterFacts]) -> Iterator[tuple[AdapterFacts, str, float, float]]:
        """Yield an adapter, what is measured, the value, and the limit that it is above."""
        called = [one for one in found if one.is_active]
        trained = [one for one in found if one.is_trained]
        for one in found:
            if one.is_off:
                yield one, _OFF, one.layer_count, 0.0
            elif one.is_merged:
                yield one, _MERGED, one.layer_count, 0.0
            elif one.is_trained and not one.is_active:
                yield one, _UNUSED, one.layer_count, 0.0
            elif one.is_trained and one.is_for_inference and len(trained) < len(found):
                yield one, _FROZEN, one.layer_count, 0.0
        if called and not any(one.is_trained for one in called):
            yield called[0], _NOT_TRAINED, called[0].layer_count, 0.0
        for one in trained:
            if not self.is_usual(one.scaling):
                yield one, _SCALE, abs(one.scaling), self.most if abs(one.scaling) > self.most else -1.0
