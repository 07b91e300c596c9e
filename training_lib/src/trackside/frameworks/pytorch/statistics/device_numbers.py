"""Numbers on their way from a GPU: sent once a step, all together, and never waited for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from trackside.capture.ground.values import Numbers, Values
from trackside.frameworks.pytorch.losses.description import LateScale

_SENDINGS_UNTIL_HERE = 2  # without an event to query: numbers that many sendings old have arrived
_POLL_SECONDS = 0.001


def is_on_device(tensor: torch.Tensor) -> bool:
    """Return True if reading the tensor would make training wait for a device."""
    return not tensor.is_cpu


class DeviceNumbers:
    """The numbers of a step on each device, sent with one copy."""

    def __init__(self, is_late: Callable[[torch.Tensor], bool] = is_on_device) -> None:
        self.is_late = is_late
        self._open: dict[torch.device, _Sending] = {}
        self._sent: deque[_Sending] = deque()
        self._send_count = 0

    def take(self, tensor: torch.Tensor) -> Values:
        """Return the tensor's numbers, which may arrive later. Shape (n,)."""
        sending = self._open.get(tensor.device)
        if sending is None:
            sending = self._open[tensor.device] = _Sending(self)
        return sending.take(tensor)

    def take_alone(self, tensor: torch.Tensor) -> Values:
        """Return the tensor's numbers as `take`, and send them at once."""
        taken = self.take(tensor)
        self.send()
        return taken

    def take_loss(self, value: torch.Tensor, scale: float | LateScale) -> float | Values:
        """Return the value of a loss before it was multiplied by `scale`, now or later. `value` has one element."""
        if not self.is_late(value):  # then the script has waited for the device itself
            return value.item() / (scale.read() if isinstance(scale, LateScale) else scale)
        taken = self.take(value.detach().reshape(1))
        if isinstance(scale, LateScale):
            return _Unscaled(taken, scale.of, [self.take(factor.reshape(1)) for factor in scale.factors])
        return taken if scale == 1 else _Unscaled(taken, lambda _: scale)

    @property
    def is_used(self) -> bool:
        """True if any numbers are waiting to be sent, or on their way."""
        return bool(self._open or self._sent)

    def send(self) -> None:
        """Send the numbers taken since the last call."""
        self._send_count += 1
        while self._sent and self._sent[0].is_here():
            self._sent.popleft()
        if self._open:
            for sending in self._open.values():
                sending.send(self._send_count)
                self._sent.append(sending)
            self._open = {}

    def wait(self, seconds: float) -> None:
        """Wait until all sent numbers have arrived, at most so long."""
        self._send_count += _SENDINGS_UNTIL_HERE
        end = time.monotonic() + seconds
        while any(not sending.is_here() for sending in self._sent) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)

    @property
    def send_count(self) -> int:
        """Number of times that numbers were sent."""
        return self._send_count


class _Sending:
    """The numbers of one step on one device."""

    def __init__(self, numbers: DeviceNumbers) -> None:
        self._numbers = numbers
        self._tensors: list[torch.Tensor] = []
        self._count = 0
        self._sent_at: int | None = None
        self._event: Any = None
        self._array: Numbers = np.empty(0)
        self._remote: torch.Tensor | None = None

    def take(self, tensor: torch.Tensor) -> Values:
        start, self._count = self._count, self._count + len(tensor)
        # A copy, because a loss may be written over before the step ends.
        self._tensors.append(tensor.detach().clone())
        return _Slice(self, start, self._count)

    def send(self, send_count: int) -> None:
        joined = torch.cat([tensor.double() for tensor in self._tensors])
        self._tensors = []
        self._sent_at = send_count
        if joined.is_cuda:
            # On the stream that computed them: a stream of their own would cost more calls than so few bytes take.
            has_cuda = bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call] # torch's own omission
            host = torch.empty(len(joined), dtype=joined.dtype, pin_memory=has_cuda)
            host.copy_(joined, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call] # torch's own omission
            self._event.record(torch.cuda.current_stream(joined.device))
            self._remote = host
        else:
            self._remote = joined

    def is_here(self) -> bool:
        if self._sent_at is None:
            return False
        if self._event is not None:
            return bool(self._event.query())
        return self._numbers.send_count >= self._sent_at + _SENDINGS_UNTIL_HERE

    def array(self) -> Numbers:
        if self._remote is not None:
            self._array = np.array(self._remote.cpu().numpy())
            self._remote = self._event = None
            self._sent_at = -_SENDINGS_UNTIL_HERE
        return self._array


class _Slice:
    """Some of the numbers of one step on one device."""

    def __init__(self, sending: _Sending, start: int, end: int) -> None:
        self._sending, self._start, self._end = sending, start, end

    def is_here(self) -> bool:
        return self._sending.is_here()

    def get(self) -> Numbers:
        return self._sending.array()[self._start : self._end]


class _Unscaled:
    """Numbers divided by a scale that may itself be on its way: on the host, where it is known by then."""

    def __init__(
        self, values: Values, scale: Callable[[Sequence[float]], float], factors: Sequence[Values] = ()
    ) -> None:
        self._values, self._scale, self._factors = values, scale, factors

    def is_here(self) -> bool:
        return self._values.is_here() and all(factor.is_here() for factor in self._factors)

    def get(self) -> Numbers:
        scale = self._scale([float(factor.get()[0]) for factor in self._factors])
        return self._values.get() / scale
