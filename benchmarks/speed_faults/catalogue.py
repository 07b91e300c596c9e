"""The planted faults of speed: each a plain script, which knows nothing of Trackside, with a right twin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class SpeedFault:
    """One planted fault.

    script        name of the script
    title         the fault in the words of a user
    rules         rules that name it; none for a script without a fault
    bottlenecks   verdicts of `trackside profile` that name it
    evidence      a text that the verdict's cause must have: the line, the DataLoader or the change
    ranks         processes that train together
    options       options of `trackside run`
    """

    script: str
    title: str
    rules: tuple[str, ...]
    bottlenecks: tuple[str, ...]
    evidence: str = ""
    ranks: int = 1
    options: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The script."""
        return SCRIPTS / f"{self.script}.py"


_INPUT, _HOST = ("input-bound",), ("host-bound",)
_FAST_SAMPLES = ("--sample-interval", "100")
FAULTS = (
    SpeedFault("slow_collate", "slow collate", ("data-starvation",), _INPUT, "in collate"),
    SpeedFault("no_workers", "no workers", ("data-starvation", "dataloader"), _INPUT, "num_workers=0"),
    SpeedFault("too_many_workers", "too many workers", ("dataloader",), _INPUT, "num_workers=24"),
    SpeedFault("synchronising", "synchronising every step", ("stalled-step",), _HOST, "gather_metrics", ranks=2),
    SpeedFault("memory_creep", "memory creep", ("host-memory-increase",), ("memory creep",)),
    SpeedFault("straggler", "straggler rank", ("straggler-rank",), ("straggler rank",), "worker_1", ranks=2),
    SpeedFault("oversized_inputs", "oversized inputs", ("data-starvation",), _INPUT, "MiB"),
    SpeedFault("garbage_collection", "garbage-collection pauses", ("step-outlier",), _HOST, "gc.collect()"),
    SpeedFault("disk_contention", "disk contention", ("io-bottleneck",), _INPUT, "preadv", options=_FAST_SAMPLES),
)
LOOPS = (
    FAULTS[0],
    SpeedFault("by_hand", "fetches by hand", ("data-starvation",), _INPUT, "in __getitem__"),
    SpeedFault("iterable", "an IterableDataset", ("data-starvation",), _INPUT, "in __iter__"),
    SpeedFault("no_loader", "no DataLoader", ("stalled-step",), _HOST, "in read_batch"),
    SpeedFault("sleep_in_step", "a sleep in the step", ("stalled-step",), _HOST, "time.sleep(0.02)"),
    SpeedFault("computing", "a loop that computes", (), ("compute-bound", "balanced")),
)
