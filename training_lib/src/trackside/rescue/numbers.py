"""The few numbers of a training step that show broken numerics: norms of gradients and weights, the loss, the rate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import Optimizer

from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.rescue.kept_trees import own_part


class Numbers(NamedTuple):
    """Numbers of one step, right after the optimizer's.

    steps     number of training steps that had ended
    loss      the newest loss that gradients were computed of; None if it is no single number
    gradient  norm of all gradients; None if there are none any more
    weights   norm of all trained weights
    change    norm of the changes of each tensor's norm since the look before; None at the first look
    rate      the largest learning rate
    """

    steps: int
    loss: float | None
    gradient: float | None
    weights: float
    change: float | None
    rate: float


class StepNumbers:
    """Reads them. On a device they are read one look later, so that the training need not wait for its device."""

    def __init__(self) -> None:
        self._loss: torch.Tensor | None = None
        self._scale: Any = None
        self._norms: torch.Tensor | None = None
        self._pending: tuple[Any, Any] | None = None

    def saw_loss(self, tensors: Any) -> None:
        """Note the loss of a backward pass, the argument of `torch.autograd.backward`."""
        loss = tensors[0] if isinstance(tensors, (tuple, list)) and tensors else tensors
        is_number = isinstance(loss, torch.Tensor) and loss.numel() == 1 and has_memory(loss)
        self._loss = loss.detach() if is_number else None

    def forget(self) -> None:
        """Forget what was read: the next look is the first one."""
        self._norms = self._pending = self._loss = None

    def read(self, optimizers: Iterable[Optimizer], steps: int, *, scale: torch.Tensor | None) -> Numbers | None:
        """Return the numbers of this step, or of the look before on a device; None without any yet.

        Args:
            optimizers: Their parameters are read.
            steps: Number of training steps that have ended.
            scale: The factor of the loss by a gradient scaler.
        """
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        weights = [own_part(p) for group in groups for p in group["params"] if _is_dense(p)]
        gradients = [own_part(p.grad) for group in groups for p in group["params"] if _is_dense(p.grad)]
        if not weights:
            return None
        rate = max(float(group.get("lr") or 0.0) for group in groups)
        with torch.no_grad():
            norms = _norms(weights)
            change = None
            if self._norms is not None and self._norms.shape == norms.shape and self._norms.device == norms.device:
                change = torch.linalg.vector_norm(norms - self._norms)
            self._norms = norms
            parts = [
                torch.linalg.vector_norm(norms),
                torch.linalg.vector_norm(_norms(gradients)) if gradients else None,
                change,
                self._loss,
                scale if self._loss is not None else None,
            ]
            row = torch.stack([p.reshape(()).to(norms.device, torch.float64) for p in parts if p is not None])
        where = tuple([part is not None for part in parts])
        now = (steps, rate, where)
        if not row.is_cuda:
            return _numbers(now, row)
        before = self._pending
        held, event = row.to("cpu", non_blocking=True), torch.cuda.Event()  # type: ignore[no-untyped-call] # torch's own omission
        event.record()
        self._pending = now, (held, event)
        if before is None:
            return None
        before[1][1].synchronize()
        return _numbers(before[0], before[1][0])


def _is_dense(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and tensor.layout is torch.strided and has_memory(tensor)


def _norms(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Return the norm of each tensor, of shape (n,), on the device of the first."""
    norms = (
        torch._foreach_norm(tensors, 2, dtype=torch.float32)
        if tensors[0].dtype in _HALVES
        else torch._foreach_norm(tensors)
    )
    device = norms[0].device
    return torch.stack([norm if norm.device == device else norm.to(device) for norm in norms])


_HALVES = (torch.float16, torch.bfloat16)


def _numbers(about: tuple[int, float, tuple[bool, ...]], row: torch.Tensor) -> Numbers:
    steps, rate, where = about
    values = iter(row.tolist())
    weights, gradient, change, loss, scale = [next(values) if is_known else None for is_known in where]
    if loss is not None and scale:
        loss /= scale
    return Numbers(steps, loss, gradient, float(weights or 0.0), change, rate)
