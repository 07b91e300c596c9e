"""The content of a run, the progress of its rules, and the likely reason for an empty run."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from trackside.contracts.run_layout import INDEX_PREFIX, parse_index_key
from trackside.evaluation.progress import ProgressFile, RuleProgress
from trackside.extras import install_elsewhere
from trackside.storage.store import Store

_PROBE = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('trackside') else 3)"


def saved_steps(tensors: Store) -> tuple[int, ...]:
    """Return the steps with saved tensors, ascending. `tensors` is rooted at `<run>/debug-output`."""
    parsed = (parse_index_key(key) for key in tensors.list(INDEX_PREFIX))
    return tuple(sorted({found[0] for found in parsed if found}))


def rule_progress(rule_output: Store) -> Mapping[str, RuleProgress]:
    """Return the progress of each rule, by the name of its configuration. `rule_output` is `<run>/rule-output`."""
    return ProgressFile(rule_output).load().rules


def why_nothing_was_captured(command: Sequence[str], *, environment: Mapping[str, str]) -> str:
    """Return the likeliest reason for an empty run in a sentence or two, with a cure."""
    name = Path(command[0]).name
    if not name.startswith("python"):
        return (
            f"{name} may start no Python, or a Python without Trackside, or no PyTorch training. "
            "Capture works in a Python that has `trackside` and torch installed."
        )
    if _lacks_trackside(command[0], environment=environment):
        return f"{command[0]} has no Trackside. Install it there: {install_elsewhere(command[0])}"
    return (
        "The script took no optimizer step that was due to be saved, or does not train with PyTorch. "
        "A short run may need --save-interval 1."
    )


def _lacks_trackside(python: str, *, environment: Mapping[str, str]) -> bool:
    kept = {name: value for name, value in environment.items() if not name.startswith("TRACKSIDE_")}
    try:
        probe = subprocess.run([python, "-c", _PROBE], env=kept, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 3
