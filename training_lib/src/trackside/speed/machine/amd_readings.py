"""State of AMD's accelerators, from the files of their driver (`amdgpu`). No package is needed.

The files and their units are those of the kernel's documentation of amdgpu (GPU Power/Thermal Controls and Monitoring).
A card without one of them lacks that value: MI300A has no temperature `edge`, and old cards have no use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from trackside.speed.machine.gpu_readings import GpuState
from trackside.speed.machine.system_metrics import OpenFiles

_CARDS = "sys/class/drm"
_VENDOR = b"0x1002"
_TEMPERATURES = (b"edge", b"junction")  # the first that the card has
_MOST_BYTES = 64


class AmdGpus:
    """AMD's accelerators.

    Args:
        root: The folder in the place of /.
    """

    def __init__(self, root: str = "/") -> None:
        self._root, self._files = root, OpenFiles(root)
        self._cards = [_Card(self, device) for device in self._found()]

    def __bool__(self) -> bool:
        """Return True if the machine has such an accelerator."""
        return bool(self._cards)

    def read(self) -> Iterator[GpuState]:
        """Yield the state of each accelerator; see `GpuReader`."""
        for number, card in enumerate(self._cards):
            yield card.state(number)

    def text(self, path: str) -> bytes:
        """Return the content of a file without blanks at its ends; b"" if it cannot be read."""
        return self._files.read(path, most_bytes=_MOST_BYTES).strip(b"\0 \n") if path else b""

    def number(self, path: str, *, per: float = 1.0) -> float | None:
        """Return the number in a file, in units of `per`; None without one."""
        text = self.text(path)
        return int(text) / per if text.isdigit() else None

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a folder; [] without it."""
        try:
            return sorted(os.listdir(os.path.join(self._root, path)))
        except OSError:
            return []

    def _found(self) -> list[str]:
        cards = [name for name in self.names(_CARDS) if name.startswith("card") and name[4:].isdigit()]
        devices = [f"{_CARDS}/{name}/device" for name in sorted(cards, key=lambda name: int(name[4:]))]
        return [device for device in devices if self.text(f"{device}/vendor") == _VENDOR]


class _Card:
    def __init__(self, gpus: AmdGpus, device: str) -> None:
        self._gpus, self._device = gpus, device
        sensors = next((name for name in gpus.names(f"{device}/hwmon") if name.startswith("hwmon")), "")
        self._sensors = f"{device}/hwmon/{sensors}"
        files = set(gpus.names(self._sensors))
        labels = {gpus.text(f"{self._sensors}/{name}"): name for name in sorted(files) if name.endswith("_label")}
        heat = next((labels[label] for label in _TEMPERATURES if label in labels), "temp1_label")
        self._heat = f"{self._sensors}/{heat.replace('_label', '_input')}"
        self._power = f"{self._sensors}/{'power1_average' if 'power1_average' in files else 'power1_input'}"

    def state(self, number: int) -> GpuState:
        gpus = self._gpus
        used = gpus.number(f"{self._device}/mem_info_vram_used")
        total = gpus.number(f"{self._device}/mem_info_vram_total")
        return GpuState(
            number,
            busy_percent=gpus.number(f"{self._device}/gpu_busy_percent"),
            memory_percent=100 * used / total if used is not None and total else None,
            power_watts=gpus.number(self._power, per=1e6),
            clock_mhz=gpus.number(f"{self._sensors}/freq1_input", per=1e6),
            temperature_celsius=gpus.number(self._heat, per=1e3),
        )
