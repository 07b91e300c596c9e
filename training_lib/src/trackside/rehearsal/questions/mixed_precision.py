"""mixed-precision-agrees: the loss under autocast is that of full precision."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from trackside.contracts.run.check import Answer
from trackside.rehearsal.probe import DoesNotApplyError, Probe
from trackside.rehearsal.subject import Subject

_TIMES = 10.0  # the resolution of the type: errors of layers add up


class MixedPrecision(Probe):
    """Compute the loss in evaluation mode as the script does, and without autocast."""

    name = "mixed-precision-agrees"
    place = 90
    what = "Under autocast the loss is another one than in full precision."
    cures = (
        "Keep sums, norms, exponentials and the loss in float32: x.float(), or autocast(enabled=False) around them.",
        "Use bfloat16 where float16 overflows (above 65504).",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault if the two losses differ by more than the resolution of the lower precision explains."""
        used: set[torch.dtype] = set()
        with _autocast_watched(used, is_off=False):
            mixed = self._loss(subject)
        if not used:
            raise DoesNotApplyError("the script trains without autocast")
        with _autocast_watched(set(), is_off=True):
            full = self._loss(subject)
        resolution = max(torch.finfo(dtype).eps for dtype in used)
        gap = abs(mixed - full) / max(abs(full), 1e-12) if math.isfinite(mixed) else math.inf
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in used))
        observed = f"loss {mixed:.5g} in {names}, {full:.5g} in full precision"
        if math.isfinite(full) and gap > _TIMES * resolution and abs(mixed - full) > _TIMES * resolution * 1e-2:
            return self.fault(observed)
        return self.ok(observed)

    def _loss(self, subject: Subject) -> float:
        subject.program.evaluate()
        return float(subject.program.replay().loss.detach())


@contextmanager
def _autocast_watched(used: set[torch.dtype], *, is_off: bool) -> Iterator[None]:
    """Collect the types of autocast while it is entered, or keep it switched off."""
    kind = torch.autocast
    original: Any = kind.__enter__

    def enter(self: Any) -> Any:
        if is_off:
            self._enabled = False
        elif self._enabled:
            used.add(self.fast_dtype)
        return original(self)

    setattr(kind, "__enter__", enter)  # noqa: B010 - mypy forbids the plain assignment to a method
    try:
        yield
    finally:
        setattr(kind, "__enter__", original)  # noqa: B010 - as above
