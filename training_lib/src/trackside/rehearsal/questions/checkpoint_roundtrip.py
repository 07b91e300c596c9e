"""checkpoint-comes-back: a stored and loaded model gives the same outputs."""

from __future__ import annotations

import io

import torch

from trackside.contracts.run.check import Answer
from trackside.frameworks.pytorch.ground.script_objects import modules_of, tensors_of
from trackside.rehearsal.probe import Probe
from trackside.rehearsal.subject import Subject, difference, named_state

_SAME = 1e-6  # of the largest output
_MOST_NAMED = 3


class CheckpointRoundtrip(Probe):
    """Store the models by state_dict, overwrite their weights, load them again, and compare the evaluations."""

    name = "checkpoint-comes-back"
    place = 60
    what = "A model that is loaded from its own state_dict gives other outputs than the model that was stored."
    cures = (
        "Register tensors: self.register_buffer(name, tensor), or nn.Parameter; not a plain attribute.",
        "Do not use persistent=False for a buffer that changes in training.",
        "Let state_dict and load_state_dict call those of nn.Module.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault if keys or outputs differ, or if a tensor that is not stored changes in training."""
        before = subject.evaluated()
        registered = {id(tensor) for root in subject.models for tensor in tensors_of(root)}
        count = 0
        for root in subject.models:
            stored = _stored(root)
            count += len(stored)
            _overwrite(root)
            try:
                root.load_state_dict(stored)
            except (RuntimeError, KeyError, ValueError) as error:
                return self.fault(" ".join(str(error).split())[:200], where=type(root).__name__)
        lost = [name for name in self._not_stored(subject, registered) if self._matters(subject, name)]
        if lost:
            more = f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
            return self.fault(
                "changed in training, and is not in state_dict", where=", ".join(lost[:_MOST_NAMED]) + more
            )
        gap = difference(before, subject.evaluated())
        if gap > _SAME:
            return self.fault(f"outputs differ by {gap:.2g} of the largest", where=type(subject.models[0]).__name__)
        return self.ok(f"{count} tensors stored and loaded: the same outputs")

    def _not_stored(self, subject: Subject, registered: set[int]) -> list[str]:
        """Return the names of tensors that have changed since the first step, and are in no state_dict."""
        names = []
        kept = {id(t) for root in subject.models for t in _stored_tensors(root)}
        for name, tensor in named_state(subject.models).items():
            first = subject.first_values.get(name)
            is_changed = first is not None and (first.shape != tensor.shape or not torch.equal(first, tensor))
            if tensor.is_floating_point() and is_changed and id(tensor) not in kept:
                names.append(name)
        return names

    def _matters(self, subject: Subject, name: str) -> bool:
        """Return True if an evaluation depends on the tensor."""
        tensor = named_state(subject.models)[name]
        value, before = tensor.detach().clone(), subject.evaluated()
        with torch.no_grad():
            tensor.data.mul_(1.5).add_(0.25)
        after = subject.evaluated()
        with torch.no_grad():
            tensor.data.copy_(value)
        return difference(before, after) > _SAME


def _stored(root: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the state_dict as it comes back from a file."""
    file = io.BytesIO()
    torch.save(root.state_dict(), file)
    file.seek(0)
    found: dict[str, torch.Tensor] = torch.load(file, weights_only=False)
    return found


def _stored_tensors(root: torch.nn.Module) -> list[torch.Tensor]:
    """Return the tensors of the module that its state_dict holds."""
    held = {value.data_ptr() for value in root.state_dict().values() if isinstance(value, torch.Tensor)}
    return [t for t in tensors_of(root) if t.data_ptr() in held]


def _overwrite(root: torch.nn.Module) -> None:
    """Overwrite every parameter, and every buffer that is meant to be stored."""
    left_out = {
        id(module._buffers[name])
        for module in modules_of(root)
        for name in module._non_persistent_buffers_set
        if module._buffers.get(name) is not None
    }
    with torch.no_grad():
        for tensor in tensors_of(root):
            if tensor.is_floating_point() and id(tensor) not in left_out:
                tensor.data.copy_(tensor.data * 0.5 + 0.125)
