"""`python -m tests.smdebug.fuzz_drop_in --seeds 500`: plays random scripts under the real smdebug and the drop-in."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.smdebug.random_scenarios import Scenario, scenario_of, surprises
from tests.smdebug.sides import HERE, Side, ours, theirs

Answer = dict[str, Any]
SEEDS_A_PROCESS = 100
PEER = HERE.parents[1] / ".venv" / "smdebug-peer" / "bin" / "python"


def played(side: Side, scenarios: Sequence[Scenario], folder: Path) -> list[Answer]:
    """What one package made of the scripts, all of them in one process."""
    torch = importlib.util.find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    folder.mkdir(parents=True)
    order, answer = folder / "order.json", folder / "answer.json"
    order.write_text(
        json.dumps({"folder": str(folder), "torch": str(Path(torch.origin).parents[1]), "scenarios": scenarios}),
        "utf-8",
    )
    side.run(HERE / "scenario_player.py", str(order), str(answer))
    return list(json.loads(answer.read_text("utf-8")))


def answers_of(scenarios: Sequence[Scenario], folder: Path, peer: Path) -> list[tuple[Answer, Answer]]:
    """What both packages made of each script: (ours, theirs)."""
    with ThreadPoolExecutor(2) as both:
        played_by = [both.submit(played, side, scenarios, folder / side.name) for side in (ours(), theirs(peer))]
    one, other = (answer.result() for answer in played_by)
    return list(zip(one, other, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the seeds. Return 0 if no script had a surprise."""
    parser = argparse.ArgumentParser(prog="python -m tests.smdebug.fuzz_drop_in", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="number of scripts")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--peer", type=Path, default=PEER, help="interpreter with the real smdebug")
    options = parser.parse_args(arguments)
    failed = 0
    for first in range(options.first, options.first + options.seeds, SEEDS_A_PROCESS):
        seeds = range(first, min(first + SEEDS_A_PROCESS, options.first + options.seeds))
        with tempfile.TemporaryDirectory() as folder:
            scenarios = [scenario_of(seed) for seed in seeds]
            answers = answers_of(scenarios, Path(folder), options.peer)
        for seed, scenario, pair in zip(seeds, scenarios, answers, strict=True):
            each = surprises(scenario, *pair)
            failed += bool(each)
            sys.stdout.write("".join(f"seed {seed}: {line}\n" for line in each))
    sys.stdout.write(f"{options.seeds} scripts, {failed} with surprises\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
