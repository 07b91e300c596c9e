"""AMD's accelerators: values that their driver's files had on real cards, as other people recorded them.

The values of RX 6900 XT, RX 7900 XTX, Vega 56, Phoenix, R7 240 and R9 280 are those of the snapshots of LACT's tests
(github.com/ilya-zlobintsev/LACT, 238e315); those of MI300A are from an issue of nvtop (Syllo/nvtop, issue 514).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from trackside.speed.machine.accelerators import gpu_reader
from trackside.speed.machine.amd_readings import AmdGpus
from trackside.speed.machine.gpu_readings import GpuState

RX_6900_XT = {
    "gpu_busy_percent": "3", "mem_info_vram_total": "17163091968", "mem_info_vram_used": "668274688",
    "hwmon/hwmon5/freq1_input": "500000000", "hwmon/hwmon5/power1_average": "36000000",
    "hwmon/hwmon5/temp1_label": "edge", "hwmon/hwmon5/temp1_input": "56000",
    "hwmon/hwmon5/temp2_label": "junction", "hwmon/hwmon5/temp2_input": "59000",
}  # fmt: skip
PHOENIX = {
    "gpu_busy_percent": "0", "mem_info_vram_total": "4294967296", "mem_info_vram_used": "1272893440",
    "hwmon/hwmon6/freq1_input": "800000000", "hwmon/hwmon6/power1_average": "3103000",
    "hwmon/hwmon6/power1_input": "3142000", "hwmon/hwmon6/temp1_label": "edge", "hwmon/hwmon6/temp1_input": "25000",
}  # fmt: skip
R9_280 = {
    "hwmon/hwmon0/freq1_input": "300000000", "hwmon/hwmon0/temp1_label": "edge", "hwmon/hwmon0/temp1_input": "37000",
}  # fmt: skip
MI300A = {
    "hwmon/hwmon2/temp2_label": "junction", "hwmon/hwmon2/temp2_input": "43000",
    "hwmon/hwmon2/temp3_label": "mem", "hwmon/hwmon2/temp3_input": "37000",
}  # fmt: skip


def write(root: Path, card: str, files: dict[str, str], *, vendor: str = "0x1002") -> None:
    for name, text in {"vendor": vendor, **files}.items():
        file = root / "sys/class/drm" / card / "device" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("files", "state"),
    [
        pytest.param(RX_6900_XT, GpuState(0, 3.0, 100 * 668274688 / 17163091968, 36.0, 500.0, 56.0), id="rx6900xt"),
        pytest.param(PHOENIX, GpuState(0, 0.0, 100 * 1272893440 / 4294967296, 3.103, 800.0, 25.0), id="phoenix"),
        pytest.param(R9_280, GpuState(0, None, None, None, 300.0, 37.0), id="r9-280-without-use-memory-and-power"),
        pytest.param(MI300A, GpuState(0, None, None, None, None, 43.0), id="mi300a-without-edge"),
        pytest.param({"hwmon/hwmon1/power1_input": "142000000"}, GpuState(0, power_watts=142.0), id="power-input-only"),
        pytest.param({"hwmon/hwmon3/temp1_input": "27000"}, GpuState(0, temperature_celsius=27.0), id="without-labels"),
        pytest.param({"gpu_busy_percent": "3\0\0\0"}, GpuState(0, 3.0), id="filled-up-with-zero-bytes"),
        pytest.param({}, GpuState(0), id="no-value"),
        pytest.param({"gpu_busy_percent": "", "mem_info_vram_used": "N/A"}, GpuState(0), id="no-numbers"),
        pytest.param({"mem_info_vram_used": "5", "mem_info_vram_total": "0"}, GpuState(0), id="no-memory"),
        pytest.param({"hwmon/other/temp1_input": "27000"}, GpuState(0), id="no-folder-of-sensors"),
    ],
)
def test_reads_what_a_card_offers(files: dict[str, str], state: GpuState, tmp_path: Path) -> None:
    write(tmp_path, "card0", files)
    assert list(AmdGpus(str(tmp_path)).read()) == [state]


def test_counts_amds_cards_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for card, busy in (("card10", "10"), ("card2", "2"), ("card2-DP-1", "99"), ("card1", "1")):
        write(tmp_path, card, {"gpu_busy_percent": busy}, vendor="0x8086" if card == "card1" else "0x1002")
    gpus = AmdGpus(str(tmp_path))
    assert [(gpu.number, gpu.busy_percent) for gpu in gpus.read()] == [(0, 2.0), (1, 10.0)]


def test_values_are_read_anew(tmp_path: Path) -> None:
    write(tmp_path, "card0", {"gpu_busy_percent": "7"})
    gpus = AmdGpus(str(tmp_path))
    assert [gpu.busy_percent for gpu in gpus.read()] == [7.0]
    write(tmp_path, "card0", {"gpu_busy_percent": "100"})
    assert [gpu.busy_percent for gpu in gpus.read()] == [100.0]


@pytest.mark.parametrize("vendor", ["0x10de", "0x8086", "", "0x1002f"])
def test_cards_of_others_are_left_alone(vendor: str, tmp_path: Path) -> None:
    write(tmp_path, "card0", RX_6900_XT, vendor=vendor)
    gpus = AmdGpus(str(tmp_path))
    assert not gpus
    assert list(gpus.read()) == []


def test_a_machine_without_cards_has_none(tmp_path: Path) -> None:
    assert not AmdGpus(str(tmp_path))


def test_this_machine_has_a_reader_or_none() -> None:
    reader = gpu_reader()
    assert reader is None or list(reader.read()) is not None
