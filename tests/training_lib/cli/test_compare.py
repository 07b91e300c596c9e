from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.training_lib.local.verdicts import issue, no_issue
from trackside.cli import main
from trackside.contracts.model_facts import LossFacts, ModelFacts, ModuleFacts, OptimizerFacts, ProgramFacts
from trackside.contracts.run.recorded_names import PROCESSOR_WAIT_SECONDS, STEP_SECONDS
from trackside.contracts.run_layout import RunLocation, performance_key
from trackside.contracts.verdict import Verdict
from trackside.records.machine.performance_facts import PerformanceFacts, encode_performance
from trackside.runs.run_folder import RunRecord, write_record
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_facts, write_statistics, write_tensors

LOSS, STEPS = "CrossEntropyLoss_output_0", 96
NOISE = 0.05 * np.random.default_rng(0).standard_normal(STEPS)


@pytest.fixture(autouse=True)
def _two_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run("a", NOISE + 2.0, verdicts=[issue("vanishing-gradient"), no_issue("overfit")])
    write_run("b", NOISE + np.where(np.arange(STEPS) >= 48, 3.0, 2.0), lr=0.1, verdicts=[no_issue(), issue("overfit")])
    write_run("c", NOISE + 2.0)


def write_run(
    name: str,
    losses: Any,
    *,
    lr: float = 0.01,
    verdicts: list[Verdict] | None = None,
    step_seconds: float = 0.0,
    width: int = 4,
    speed: PerformanceFacts | None = None,
) -> None:
    run = RunLocation(f".trackside/runs/{name}")
    tensors = LocalStore(run.tensors)
    write_collections(tensors)
    facts = ModelFacts(
        modules=(ModuleFacts("Net_fc", "Linear", in_features=width, out_features=2),),
        optimizers=(OptimizerFacts("Adam", "Adam", groups=({"lr": lr, "eps": 1e-8},), parameter_count=2),),
        losses=(LossFacts(LOSS, "CrossEntropyLoss", "mean"),),
        program=ProgramFacts(script="/home/me/train.py", framework="pytorch", framework_version="2.13.0"),
    )
    write_facts(tensors, facts)
    write_tensors(tensors, 0, {LOSS: 2.0})
    recorded: dict[str, Any] = {LOSS: {"mean": dict(enumerate(losses))}}
    if step_seconds:
        recorded[STEP_SECONDS] = {"mean": {k: step_seconds * (1 + 0.1 * NOISE[k]) for k in range(1, STEPS)}}
        recorded[PROCESSOR_WAIT_SECONDS] = {"mean": dict.fromkeys(range(1, STEPS), 0.0)}
    write_statistics(LocalStore(run.statistics), recorded)
    if speed is not None:
        LocalStore(run.profiles).put(performance_key("worker_0"), encode_performance(speed))
    end_run(tensors)
    write_record(Path(run.uri), RunRecord(("python", "train.py", "--lr", str(lr)), 0.0, 1.0, 0))
    if verdicts:
        text = "".join(f"{verdict.to_json()}\n" for verdict in verdicts)
        LocalStore(run.rule_output).put("verdicts.jsonl", text.encode())


def compare(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["compare", *arguments])


def test_the_table_names_each_difference() -> None:
    result = compare("a", "b")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "python train.py --lr 0.… python train.py --lr 0.1 command" in lines
    assert "0.01 0.1 Adam lr" in lines
    assert not any("Adam eps" in line or "Linear" in line for line in lines), "what is the same is not named"
    assert "differs in a bit from step 48 on" in lines
    assert any(line.startswith("parts beyond noise from step 48 on: B is 1 higher on average") for line in lines)
    assert "only A has an issue: vanishing-gradient, since step 4" in lines
    assert "only B has an issue: overfit, since step 4" in lines
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_losses_part_no_sooner_than_they_differ() -> None:
    write_run("e", NOISE + np.where(np.arange(STEPS) >= 43, 3.0, 2.0))
    (loss,) = json.loads(compare("a", "e", "--json").stdout)["losses"]
    assert (loss["differs_from"], loss["parts_from"]) == (43, 43)


def test_the_run_that_broke_is_named() -> None:
    broken = NOISE + np.where(np.arange(STEPS) >= 48, np.nan, 2.0)
    write_run("d", broken)
    assert "parts beyond noise from step 48 on: A is not finite" in " ".join(compare("d", "a").stdout.split())
    assert "parts beyond noise from step 48 on: B is not finite" in " ".join(compare("a", "d").stdout.split())


def test_equal_runs_have_no_difference() -> None:
    text = compare("a", "c").stdout
    assert "No recorded setting differs." in text
    assert "equal in every bit" in text
    assert "B is not judged: trackside rules run c" in text


def test_json_holds_all_of_it() -> None:
    document = json.loads(compare("a", "b", "--json").stdout)
    assert document["schema_version"] == 1
    assert {"fact": "Adam lr", "a": "0.01", "b": "0.1"} in document["facts"]
    (loss,) = document["losses"]
    assert (loss["name"], loss["steps"], loss["differs_from"], loss["parts_from"]) == (LOSS, STEPS, 48, 48)
    assert document["pace_a"] == document["pace_b"] == 1.0
    assert (document["issues_a"], document["issues_b"]) == ({"vanishing-gradient": 4}, {"overfit": 4})


@pytest.mark.parametrize(
    ("runs", "fail_on", "exit_code"),
    [
        pytest.param(("a", "b"), "never", 0, id="never"),
        pytest.param(("a", "b"), "loss", 1, id="losses part"),
        pytest.param(("a", "b"), "bitwise", 1, id="in a bit"),
        pytest.param(("a", "b"), "issue", 1, id="an issue more"),
        pytest.param(("a", "c"), "loss", 0, id="losses stay together"),
        pytest.param(("a", "c"), "bitwise", 0, id="equal"),
        pytest.param(("a", "c"), "issue", 0, id="no issue more"),
        pytest.param(("a", "c"), "not-mended", 1, id="no proof of a cure"),
        pytest.param(("b", "a"), "not-mended", 1, id="another issue"),
        pytest.param(("a", "nowhere"), "never", 3, id="no such run"),
    ],
)
def test_exit_codes(runs: tuple[str, str], fail_on: str, exit_code: int) -> None:
    assert compare(*runs, "--fail-on", fail_on).exit_code == exit_code


def test_runs_without_a_common_loss_are_said_to_be_so() -> None:
    store = LocalStore(".trackside/runs/d/debug-output")
    write_collections(store)
    write_tensors(store, 0, {"MSELoss_output_0": 2.0})
    end_run(store)
    result = compare("a", "d", "--fail-on", "bitwise")
    assert result.exit_code == 1
    assert "The runs have no loss in common." in result.stdout


TWO = PerformanceFacts(processors=2, threads=1)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "line"),
    [
        pytest.param(("p", "p2"), 0, "step time: within: quick steps +0.0 %, between", id="the same"),
        pytest.param(("p", "slow"), 1, "step time: slower: quick steps +30.0 %, between", id="slower"),
        pytest.param(("slow", "p"), 0, "step time: within: quick steps -23.1 %, between", id="faster"),
        pytest.param(
            ("p", "slow", "--baseline", "p2", "--repeat", "slow"), 1, "had the processor A p2: 9.", id="several"
        ),
        pytest.param(("p", "bit"), 7, "the interval contains 0: run both again", id="too much noise to be sure"),
        pytest.param(("p", "wide"), 6, "module Net_fc: Linear 4 2 in p, Linear 8 2 in wide", id="another model"),
        pytest.param(("p", "four"), 6, "processors: 2 in p, 4 in four", id="another machine"),
        pytest.param(("p", "a"), 6, "a has no record of its device", id="an older run"),
    ],
)
def test_the_gate_on_the_time_of_steps(arguments: tuple[str, ...], exit_code: int, line: str) -> None:
    losses = NOISE + 2.0
    for name, seconds in (("p", 0.01), ("p2", 0.01), ("slow", 0.013), ("bit", 0.01055)):
        write_run(name, losses, step_seconds=seconds, speed=TWO)
    write_run("wide", losses, step_seconds=0.01, speed=TWO, width=8)
    write_run("four", losses, step_seconds=0.01, speed=PerformanceFacts(processors=4, threads=1))
    result = compare(*arguments, "--max-step-time", "+5%")
    assert (result.exit_code, result.stderr) == (exit_code, ""), result.stdout
    assert line in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("given", "limit"),
    [pytest.param("+5%", 0.05, id="sign and unit"), pytest.param("2.5", 0.025, id="a number")],
)
def test_the_gate_in_json(given: str, limit: float) -> None:
    for name in ("p", "p2"):
        write_run(name, NOISE + 2.0, step_seconds=0.01, speed=TWO)
    document = json.loads(compare("p", "p2", "--max-step-time", given, "--json").stdout)["step_time"]
    assert (document["verdict"], document["limit"], document["change"]) == ("within", limit, 0.0)
    assert [run["run"] for run in (*document["before"], *document["after"])] == ["p", "p2"]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("a", "b", "--max-step-time", "-5%"), id="a negative change"),
        pytest.param(("a", "b", "--max-step-time", "much"), id="no number"),
        pytest.param(("a", "b", "--baseline", "c"), id="a baseline of nothing"),
    ],
)
def test_wrong_words_for_the_gate(arguments: tuple[str, ...]) -> None:
    assert compare(*arguments).exit_code == 2
