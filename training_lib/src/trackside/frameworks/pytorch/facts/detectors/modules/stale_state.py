"""State that only training mode updates, and that a module uses in eval mode although it was never updated.

Batch normalisation begins with mean 0 and variance 1; spectral normalisation with vectors that are iterated on in
training mode only. Nothing on a device is read.
"""

from __future__ import annotations

import weakref

import torch
from torch import nn

from trackside.contracts.observations import STALE_STATE
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.modes.stale_copies import is_stale_norm
from trackside.frameworks.shared.detectors import watches

RUNNING_STATISTICS = "running statistics"
SPECTRAL_NORM = "spectral norm"


@watches(STALE_STATE)
class StaleState:
    """The stale state of modules, and the first numbers of their vectors at the look before."""

    def __init__(self, watch: Watch) -> None:
        self._modules: list[weakref.ref[nn.Module]] = []  # of the newest model, those with such state
        self._stale: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._learned: weakref.WeakSet[nn.Module] = weakref.WeakSet()  # statistics that are not as they began
        self._before: weakref.WeakKeyDictionary[nn.Module, float] = weakref.WeakKeyDictionary()

    def look_begins(self) -> None:
        """Forget the modules: those of the models now come with `of`."""
        self._modules = []

    def changes(self) -> object:
        """Return the state that each module, in eval mode, uses as it began; "" for none.

        That a vector of spectral normalisation stands still is known from the second look on.
        """
        modules = [module for reference in self._modules if (module := reference()) is not None]
        self._stale = weakref.WeakKeyDictionary({module: self._look_at(module) for module in modules})
        return tuple(self._stale.values())

    def of(self, module: nn.Module) -> str:
        """Return the state of a module at the newest look, or now if it was not looked at; "" for none."""
        if _has_state(module):
            self._modules.append(weakref.ref(module))
        return self._stale[module] if module in self._stale else _stale_statistics(module)

    def _look_at(self, module: nn.Module) -> str:
        if isinstance(module, nn.modules.batchnorm._NormBase):
            if module.training or module in self._learned:
                return ""
            if not (found := _stale_statistics(module)):
                self._learned.add(module)
            return found
        vector = _spectral_vector(module)
        if vector is None or not vector.is_cpu or not vector.numel() or not has_memory(vector):
            return ""
        number, before = float(vector.reshape(-1)[0]), self._before.get(module)
        self._before[module] = number
        return SPECTRAL_NORM if not module.training and before == number else ""


def _has_state(module: nn.Module) -> bool:
    """Return True if the module has state that only training mode updates, as far as it is known here."""
    return isinstance(module, nn.modules.batchnorm._NormBase) or _spectral_vector(module) is not None


def _stale_statistics(module: nn.Module) -> str:
    return RUNNING_STATISTICS if not module.training and is_stale_norm(module) else ""


def _spectral_vector(module: nn.Module) -> torch.Tensor | None:
    """Return the vector of a module with `torch.nn.utils.spectral_norm`, or of the parametrization of that name."""
    if type(module).__name__ == "_SpectralNorm":
        found = module._buffers.get("_u")
        return found if isinstance(found, torch.Tensor) else None
    if any(type(hook).__name__ == "SpectralNorm" for hook in module._forward_pre_hooks.values()):
        return next((b for name, b in module._buffers.items() if name.endswith("_u") and b is not None), None)
    return None
