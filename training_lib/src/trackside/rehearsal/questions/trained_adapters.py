"""adapters-are-trained: the adapters that layers call are those that the optimizer holds, and have a usual scale."""

from __future__ import annotations

from trackside.contracts.observations import AdapterFacts
from trackside.contracts.run.check import Answer
from trackside.frameworks.pytorch.facts.detectors.program.adapters import adapters_of
from trackside.rehearsal.probe import DoesNotApplyError, Probe
from trackside.rehearsal.subject import Subject

_LEAST, _MOST = 0.01, 64.0  # scales in use


class TrainedAdapters(Probe):
    """Look at the adapters of PEFT in the models, and at the parameters that the optimizer holds."""

    name = "adapters-are-trained"
    place = 13
    what = "An adapter is not trained as it is used."
    cures = (
        "Open it by PeftModel.from_pretrained(..., is_trainable=True), and print model.get_model_status().",
        "Call unmerge_adapter() and enable_adapter_layers() before the training goes on.",
        "Take an lora_alpha of once or twice the rank, and with use_rslora of about its square root.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault for the first adapter with one."""
        held = frozenset(key for key, parameter in subject.optimizer_parameters().items() if parameter.requires_grad)
        adapters = adapters_of(list(subject.models), held)
        if not adapters:
            raise DoesNotApplyError("the models have no adapter of PEFT")
        trained = [one for one in adapters if one.is_trained]
        if not any(one.is_trained for one in adapters if one.is_active):
            called = next((one for one in adapters if one.is_active), adapters[0])
            return self.fault("no optimizer holds a parameter of an adapter that layers call", where=called.name)
        for one in adapters:
            if what := _fault(one, is_other_left=len(trained) < len(adapters)):
                return self.fault(what, where=one.name)
        scales = ", ".join(f"{one.name} at a scale of {one.scaling:.3g}" for one in trained)
        return self.ok(f"trained: {scales}")


def _fault(one: AdapterFacts, *, is_other_left: bool) -> str:
    if one.is_off:
        return "it is switched off"
    if one.is_merged:
        return "it is merged into the weights, and gets no gradient"
    if one.is_trained and not one.is_active:
        return "the optimizer holds it, and no layer calls it"
    if one.is_trained and one.is_for_inference and is_other_left:
        return "it was loaded for inference and is trained, and another one is not"
    if one.is_trained and not _LEAST <= abs(one.scaling) <= _MOST:
        return f"its scale is {one.scaling:.3g}"
    return ""
