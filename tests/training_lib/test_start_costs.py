"""What starting may not cost, counted: modules that are imported, clients that are made, looks through the heap.

Benchmarks measure the same in processor time: `benchmarks/startup_cost.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from trackside.aws_clients import SharedClient
from trackside.choosing.preflight import plan_rules
from trackside.contracts.capture_request import capture_environment
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import END_MARKER_KEY, RULE_REQUEST_KEY, TENSORS
from trackside.environment import inherited
from trackside.rules.catalogue import default_request
from trackside.storage.open_store import open_store

CONTAINER = Path(__file__).parents[2] / "rule_containers/evaluator/entrypoint.py"

# Writes down, at the very end, what the program after it has imported, and how often it did what is dear.
WITNESS = """
import atexit, gc, json, os, sys
counts = {{"clients": 0, "looks": 0}}

def write_down():
    with open({out!r}, "w") as file:
        json.dump({{"modules": sorted(sys.modules), **counts}}, file)

def counted(owner, name, kind):
    original = getattr(owner, name)
    def call(*args, **kwargs):
        counts[kind] += 1
        return original(*args, **kwargs)
    setattr(owner, name, call)

class AfterBotocore:
    def find_spec(self, name, path=None, target=None):
        if name == "botocore.retryhandler":  # which botocore.session imports behind what makes clients
            counted(sys.modules["botocore.client"].ClientCreator, "create_client", "clients")

atexit.register(write_down)
counted(gc, "get_objects", "looks")
sys.meta_path.insert(0, AfterBotocore())
"""
EVALUATOR = "import runpy; runpy.run_module('trackside.evaluation', run_name='__main__', alter_sys=True)"
TRAINING = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    torch.nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    optimizer.step()
"""


@dataclass(frozen=True)
class Counts:
    """What a process did from its start to its end."""

    modules: frozenset[str]
    clients: int
    looks: int

    def imported(self, *packages: str) -> set[str]:
        """Which of these, or anything in them, it imported."""
        return {name for name in self.modules for each in packages if name == each or name.startswith(f"{each}.")}


Count = Callable[..., Counts]


@pytest.fixture
def count(tmp_path: Path) -> Count:
    """Runs a program to its end."""

    def count_it(program: str, *arguments: str, **environment: str) -> Counts:
        out = tmp_path / "counts.json"
        done = subprocess.run(
            [sys.executable, "-c", WITNESS.format(out=str(out)) + program, *arguments],
            env=inherited() | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(out.read_text())
        return Counts(frozenset(found["modules"]), found["clients"], found["looks"])

    return count_it


@pytest.fixture
def place_in_s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Where no other test has written: what one of moto's servers holds, the next one in this process holds too."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}
    for name, value in {"AWS_ENDPOINT_URL": f"http://{host}:{port}", **keys}.items():
        monkeypatch.setenv(name, value)
    SharedClient("s3").get().create_bucket(Bucket="runs")
    yield f"s3://runs/{tmp_path.name}"
    server.stop()


def write_ended_run(run: str, request: RuleRequest) -> None:
    store = open_store(run)
    store.put(RULE_REQUEST_KEY, request.to_json().encode())
    store.put(f"{TENSORS}/{END_MARKER_KEY}", b"")


def capture_to(run: str) -> Mapping[str, str]:
    """What `trackside run` would tell the training."""
    plan = plan_rules([], catalogue=built_in_catalogue(), actions=(), save_interval=None, capture=None)
    return capture_environment(run, plan.capture)


def test_an_evaluator_of_a_folder_imports_what_it_needs(count: Count, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    write_ended_run(run, default_request())
    found = count(EVALUATOR, "--run", run)
    assert "numpy" in found.modules, "this is what judges"
    assert not found.imported("boto3", "botocore", "rich", "click", "torch", "yaml", "importlib.metadata", "email")
    assert not found.imported("trackside.cli", "trackside.cloud", "trackside.local", "trackside.frameworks")
    assert not found.imported("trackside.documents.requests")
    assert found.imported("trackside.presets.rules") <= {"trackside.presets.rules"}


def test_an_evaluator_imports_the_rules_that_it_judges_by(count: Count, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    documented = RuleConfiguration("vanishing-gradient", name="as-documented", preset="aws-docs")
    write_ended_run(run, RuleRequest((RuleConfiguration("dead-relu"), documented)))
    found = count(EVALUATOR, "--run", run)
    assert {
        name for name in found.imported("trackside.rules", "trackside.presets") if name.endswith(("_relu", "_gradient"))
    } == {
        "trackside.rules.tensors.dead_relu",
        "trackside.rules.tensors.vanishing_gradient",
        "trackside.presets.rules.vanishing_gradient",
    }
    assert not found.imported("trackside.rules.tensors.overfit", "trackside.rules.program.wrong_mode")


def test_an_evaluator_of_a_run_in_s3_makes_one_client(count: Count, place_in_s3: str) -> None:
    write_ended_run(place_in_s3, default_request())
    found = count(EVALUATOR, "--run", place_in_s3)
    assert found.clients == 1
    assert not found.imported("boto3", "s3transfer", "rich", "click", "torch")


def test_a_rule_container_makes_one_client(count: Count, place_in_s3: str, tmp_path: Path) -> None:
    write_ended_run(place_in_s3, default_request())
    (tmp_path / "output").mkdir()
    program = f"import runpy; runpy.run_path({str(CONTAINER)!r}, run_name='__main__')"
    arn = "arn:aws:sagemaker:us-east-1:123456789012:training-job/job"
    environment = {"TRACKSIDE_RUN": place_in_s3, "TRACKSIDE_ML_ROOT": str(tmp_path), "TRAINING_JOB_ARN": arn}
    found = count(program, **environment)
    assert found.clients == 1
    assert not found.imported("boto3", "s3transfer", "rich", "click", "torch", "trackside.cloud")


def test_a_training_that_is_captured_to_a_folder(count: Count, tmp_path: Path) -> None:
    found = count(TRAINING, **capture_to(str(tmp_path / "run")))
    assert (tmp_path / "run" / TENSORS).is_dir()
    assert not found.imported("boto3", "botocore", "rich", "click", "google.protobuf")
    assert not found.imported("trackside.cli", "trackside.trial", "trackside.rules", "trackside.evaluation")
    assert not found.imported("trackside.local", "trackside.cloud")
    assert found.looks == 1, "torch itself makes none"


def test_a_training_that_is_captured_to_s3_makes_one_client(count: Count, place_in_s3: str) -> None:
    found = count(TRAINING, **capture_to(place_in_s3))
    assert next(open_store(place_in_s3).list(f"{TENSORS}/index/"), None) is not None
    assert found.clients == 1
    assert not found.imported("boto3", "s3transfer")
