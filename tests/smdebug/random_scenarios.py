"""Random scripts for `scenario_player.py`, and the comparison of what two packages made of one.

`surprises` knows the departures that docs/smdebug-differences.md lists, and returns every other one.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from typing import Any

Scenario = dict[str, Any]
KINDS = ["weights", "biases", "gradients", "losses"]
MODES = ["TRAIN", "EVAL", "PREDICT"]
SCALAR = "scalar/"
# A norm of whole numbers ends the training.
OF_ITS_OWN = ("RuntimeError: linalg.vector_norm", "RuntimeError: mean()", "RuntimeError: std", "RuntimeError: var")
# What it says to a run of its own, with a scalar from before the first step of a mode.
ITS_OWN_RUN = "SMDebugValueError: mode step number -1"
HUGE = 1e18  # numbers with squares that the original's sums have no room for
# A loss that nobody registered: the original saves nothing of it.
FOUND_LOSS = re.compile(r"(loss|[A-Z]\w*Loss)_(output|input)_\d+")


def scenario_of(seed: int) -> Scenario:
    """The script of a seed."""
    chance = random.Random(seed)
    scenario: Scenario = {
        "seed": seed,
        "model": chance.choice(["named", "sequential", "normed", "dropped", "twice", "frozen"]),
        "loss": chance.choice(["mse", "l1", "bce", "cross_entropy", "function_mse", "function_nll"]),
        "registers_loss": chance.random() < 0.7,
        "optimizer": chance.choice(["sgd", "momentum", "adam", "adamw", "head", "none"]),
        "clears": chance.choice(["before", "before", "after", "never"]),
        "eval_mode": chance.random() < 0.8,
        "hook": _hook(chance),
    }
    if chance.random() < 0.3:
        scenario["clip"] = 0.01
    if chance.random() < 0.2:
        scenario["loss_scale"] = 64.0
    if chance.random() < 0.3:
        scenario["collections"] = {"mine": chance.choice(["_output_0", "weight$", "^gradient/.*bias", "fc1|0_"])}
        scenario["hook"].setdefault("include_collections", []).append("mine")
    scenario["events"] = _events(chance, scenario)
    return scenario


def _hook(chance: random.Random) -> dict[str, Any]:
    hook: dict[str, Any] = {}
    what = chance.random()
    if what < 0.25:
        hook["save_all"] = True
    elif what < 0.85:
        hook["include_collections"] = chance.sample(KINDS, chance.randint(1, 4))
    elif what < 0.92:
        hook["include_collections"] = ["all"]
    if chance.random() < 0.3:
        hook["include_regex"] = chance.sample([".*weight", "relu|act", "input", "^gradient", "bias", "Loss"], 2)
    if chance.random() < 0.25:
        hook["reductions"] = {
            "reductions": chance.sample(["min", "max", "mean", "std", "variance", "sum", "prod"], 2),
            "abs_norms": chance.choice([["l1"], ["l2"], []]),
            "norms": chance.choice([["l2"], []]),
            "abs_reductions": chance.choice([["mean"], []]),
            "save_raw_tensor": chance.random() < 0.4,
            "save_shape": False,
        }
    return hook


def _schedule(chance: random.Random) -> list[Any]:
    interval, start = chance.choice([1, 1, 2, 3]), chance.choice([0, 0, 0, 2])
    end = chance.choice([None, None, start + 4])
    return [interval, start, end, chance.choice([None, None, [1, 3]])]


def _events(chance: random.Random, scenario: Scenario) -> list[list[Any]]:
    shape = chance.random()
    if shape < 0.15:  # a script that sets no mode
        scenario["hook"]["schedules"] = [1, 0, None, None]
        return [["start"], *(["train", chance.randint(1, 4)] for _ in range(2))]
    hook = scenario["hook"]
    if chance.random() < 0.4:
        hook["schedules"] = {mode: _schedule(chance) for mode in (*MODES, "GLOBAL")}
    else:
        hook["schedules"] = _schedule(chance)
    if shape < 0.25:  # two hooks at one time
        begin: list[list[Any]] = [["start", "a"], ["mode", "TRAIN", 0], ["start", "b"], ["mode", "TRAIN", 1]]
        turns = [["train", 1, chance.randint(0, 1)] for _ in range(chance.randint(4, 8))]
        evaluations: list[list[Any]] = []
        if chance.random() < 0.5:
            evaluations = [["mode", "EVAL", 0], ["mode", "EVAL", 1]]
            evaluations += [["evaluate", 1, chance.randint(0, 1)] for _ in range(4)]
        return [*begin, *turns, *evaluations]
    if shape < 0.33:  # a notebook's cell that runs again
        cell: list[list[Any]] = [["start"], ["mode", "TRAIN"], ["train", chance.randint(2, 5)]]
        closed = [["close"]] if chance.random() < 0.3 else []
        return [*cell, *closed, ["remove"], *cell]
    events: list[list[Any]] = [["start"]]
    for phase in range(chance.randint(1, 6)):
        mode = chance.choice([*MODES, "TRAIN", "TRAIN", "EVAL"]) if phase else "TRAIN"
        events.append(["mode", mode])
        if chance.random() < 0.2:
            events.append(["scalar", f"before_{phase}", chance.choice([1, 2.5, True])])
        count = chance.randint(1, 5)
        events.append(["train", count] if mode == "TRAIN" or chance.random() < 0.15 else ["evaluate", count])
        if chance.random() < 0.2:
            events.append(["scalar", f"after_{phase}", chance.choice([3, 0.5])])
    if chance.random() < 0.1:
        events.append(["fail"])
    return events


def surprises(
    scenario: Scenario, ours: Mapping[str, Any], theirs: Mapping[str, Any], *, knows_rows: bool = True
) -> list[str]:
    """The departures that no row of the page explains; [] for the same answers. All of them without `knows_rows`."""
    if knows_rows and (theirs["is_off"] or theirs["raised"].startswith(OF_ITS_OWN)):  # an error of its own
        return []
    found = []
    if ours["raised"] != theirs["raised"]:
        found.append(f"raised: {ours['raised']!r}, not {theirs['raised']!r}")
    for number, (one, other) in enumerate(zip(ours["runs"], theirs["runs"], strict=True)):
        if "error" in one:
            found.append(f"run {number}: {one['error']}")
        if knows_rows and other.get("error", "").startswith(ITS_OWN_RUN):
            continue
        found += [
            f"run {number}: {each}" for each in _of_run(scenario, one or _EMPTY, other or _EMPTY, knows_rows=knows_rows)
        ]
    return found


_EMPTY: dict[str, Any] = {"tensors": {}, "collections": {}}


def _of_run(scenario: Scenario, ours: Mapping[str, Any], theirs: Mapping[str, Any], *, knows_rows: bool) -> list[str]:
    sets_mode = not knows_rows or any(event[0] == "mode" for event in scenario["events"])
    found = []
    for name in sorted({*ours["tensors"], *theirs["tensors"]}):
        one, other = ours["tensors"].get(name, {}), theirs["tensors"].get(name, {})
        if knows_rows and name.startswith(SCALAR):  # it may lie in another step
            one, other = ({str(step[2:]): step for step in each.values()} for each in (one, other))
            if one.keys() != other.keys():
                found.append(f"{name}: {[*one]}, not {[*other]}")
            continue
        if knows_rows and not other and _is_found_by_itself(scenario, name):
            continue
        steps = sorted({*one, *other}, key=int)
        wrong = [
            step
            for step in steps
            if not _is_same(one.get(step), other.get(step), sets_mode=sets_mode, knows_rows=knows_rows)
        ]
        if knows_rows and _spoils_a_step(scenario):
            wrong = [step for step in wrong if other.get(step) is not None]
        found += [f"{name} at {step}: {one.get(step)}, not {other.get(step)}" for step in wrong[:2]]
    for name, tensors in theirs["collections"].items():
        absent = {each for each in tensors if not each.startswith(SCALAR)} - {*ours["collections"].get(name, [])}
        if absent:
            found.append(f"collection {name} lacks {sorted(absent)}")
    return found


def _spoils_a_step(scenario: Scenario) -> bool:
    """Whether the original's first hook, never closed, takes the file of its last step from the second one."""
    words = {event[0] for event in scenario["events"]}
    return "remove" in words and "close" not in words


def _is_found_by_itself(scenario: Scenario, name: str) -> bool:
    is_registered = scenario.get("registers_loss", True) and not scenario["loss"].startswith("function")
    return not is_registered and FOUND_LOSS.fullmatch(name) is not None


def _is_same(one: list[Any] | None, other: list[Any] | None, *, sets_mode: bool, knows_rows: bool) -> bool:
    if one is None or other is None:
        return one is other
    (*place, whole, reductions), (*other_place, other_whole, other_reductions) = one, other
    if sets_mode and place != other_place:
        return False
    if whole != other_whole or len(reductions) != len(other_reductions):
        return False
    finite = [abs(its[2]) for its in other_reductions if its[0] != "prod" and math.isfinite(its[2])]
    largest = max(finite, default=0.0)
    least = max(1e-6, 1e-5 * largest)  # what sums and means of other orders may differ by
    return all(
        mine[:2] == its[:2]
        and (
            math.isclose(mine[2], its[2], rel_tol=1e-4, abs_tol=least)
            or mine[2] != mine[2]
            or (knows_rows and math.isinf(its[2]) and mine[2] > HUGE)
        )
        for mine, its in zip(reductions, other_reductions, strict=True)
    )
