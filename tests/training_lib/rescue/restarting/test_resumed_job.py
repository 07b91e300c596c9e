"""The container of a job that goes on: the script finds the good checkpoint, whatever SageMaker brings back from S3."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.patience import HANGS_SECONDS
from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run.restart import LeftOut, Met, Order, Report
from trackside.contracts.run.resumption import Resumption
from trackside.contracts.run_layout import TENSORS, checkpoints_key
from trackside.environment import RescueEnvironment, ResumedJobEnvironment, inherited
from trackside.records.checkpoints_file import encode_checkpoints
from trackside.rescue.restarting import resumed_job
from trackside.storage.open_store import open_store

JOB = "digits-resumed-1"
LIST = f".trackside-set-aside/{JOB}/set-aside.json"
SCRIPT = """\
import os, pathlib, sys
folder = pathlib.Path(sys.argv[1])
print(sorted(each.name for each in folder.iterdir() if not each.name.startswith(".")))
print(os.path.basename(os.environ["TRACKSIDE_RESUME_FROM"]), os.path.basename(os.environ["TRACKSIDE_LEAVE_OUT"]))
"""
ORDER = Resumption("digits", 1, "arn:aws:sagemaker:eu-west-1:1:training-job/digits@7", 499, 640, "", ("loss-spike",))


class Container(NamedTuple):
    """One container of the job: its /opt/ml, its checkpoints, and the run of the job before."""

    root: Path
    earlier: Path

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    def variables(self, order: Resumption = ORDER) -> dict[str, str]:
        return {
            "TRACKSIDE_RUN": str(self.root / "run"),
            "TRACKSIDE_RESUMED": replace(order, folder=str(self.checkpoints)).to_json(),
            "TRACKSIDE_RESUMED_RUN": str(self.earlier),
            "TRACKSIDE_RESUME_FROM": str(self.checkpoints / "checkpoint-500"),
            "TRAINING_JOB_NAME": f"digits-resumed-{order.number}",
            "TRACKSIDE_ML_ROOT": str(self.root),
        }

    def start(self, order: Resumption = ORDER) -> subprocess.CompletedProcess[str]:
        """Run the script as a container does: `trackside.pth` imports what prepares it."""
        return subprocess.run(
            [sys.executable, "-c", f"import trackside.frameworks.attach\n{SCRIPT}", str(self.checkpoints)],
            env=inherited() | self.variables(order),
            capture_output=True,
            text=True,
            timeout=HANGS_SECONDS,
            check=False,
        )

    def names(self) -> list[str]:
        return sorted(each.name for each in self.checkpoints.iterdir() if not each.name.startswith("."))

    def prepare(self, order: Resumption = ORDER) -> None:
        """What a first process does, within this one."""
        (self.root / "output" / ".trackside-resumed").unlink(missing_ok=True)
        environment = ResumedJobEnvironment.read(self.variables(order))
        resumed_job._prepared(environment)

    def write(self, number: int, content: str) -> None:
        folder = self.checkpoints / f"checkpoint-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.pt").write_text(content)
        (folder / "optimizer.pt").write_text(content)


@pytest.fixture
def container(tmp_path: Path) -> Container:
    """Checkpoints of a job that broke between 500 and 600, as its run lists them. It had deleted 700: S3 has not."""
    made = Container(tmp_path / "ml", tmp_path / "earlier")
    for number in (400, 500, 600, 700):
        made.write(number, f"weights {number}")
    paths = [made.checkpoints / f"checkpoint-{number}" / "model.pt" for number in (400, 500, 600)]
    known = [Checkpoint(number - 1, str(path)) for number, path in zip((400, 500, 600), paths, strict=True)]
    known += [Checkpoint(one.step, one.path.replace("model", "optimizer"), has_model=False) for one in known]
    open_store(f"{made.earlier}/{TENSORS}").put(checkpoints_key("worker_0"), encode_checkpoints(known))
    return made


def test_the_script_finds_the_good_one_and_what_it_leaves_out(container: Container) -> None:
    done = container.start()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['checkpoint-400', 'checkpoint-500']", "checkpoint-500 order.json"]
    aside = container.checkpoints / f".trackside-set-aside/{JOB}"
    lists = {"set-aside.json", "order.json"}
    assert {each.name for each in aside.iterdir()} == {"checkpoint-600", "checkpoint-700", *lists}
    assert (aside / "checkpoint-600" / "model.pt").read_text() == "weights 600"


def test_other_processes_and_later_ones_move_nothing(container: Container) -> None:
    container.prepare()
    container.write(600, "sound weights 600")
    assert container.start().stdout.splitlines()[0] == "['checkpoint-400', 'checkpoint-500', 'checkpoint-600']"


def test_processes_that_start_at_once_wait_for_the_first(container: Container) -> None:
    command = [sys.executable, "-c", f"import trackside.frameworks.attach\n{SCRIPT}", str(container.checkpoints)]
    environment = inherited() | container.variables()
    ranks = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = {rank.communicate(timeout=HANGS_SECONDS)[0] for rank in ranks}
    assert said == {"['checkpoint-400', 'checkpoint-500']\ncheckpoint-500 order.json\n"}


@pytest.mark.parametrize(
    ("content", "names"),
    [
        pytest.param("weights 600", ["checkpoint-400", "checkpoint-500"], id="what was moved came back from S3"),
        pytest.param(
            "sound weights 600",
            ["checkpoint-400", "checkpoint-500", "checkpoint-600"],
            id="the script wrote it anew before its spot instance went away",
        ),
    ],
)
def test_a_container_that_is_started_again_knows_its_own(container: Container, content: str, names: list[str]) -> None:
    container.prepare()
    container.write(600, content)
    container.prepare()
    assert container.names() == names


def test_a_container_that_ended_in_the_middle_is_made_good(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename: Callable[..., None] = os.rename

    def once(source: str, target: str) -> None:
        monkeypatch.setattr(os, "rename", rename)
        rename(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", once)
    with pytest.raises(KeyboardInterrupt):
        container.prepare()
    assert json.loads((container.checkpoints / LIST).read_text())["state"] == "moving"
    container.prepare()
    assert container.names() == ["checkpoint-400", "checkpoint-500"]
    assert json.loads((container.checkpoints / LIST).read_text())["state"] == "moved"


def test_the_next_job_of_a_row_does_not_find_what_the_first_one_broke(container: Container, tmp_path: Path) -> None:
    """It failed before it wrote 600 anew, so S3 still has the first job's."""
    container.prepare()
    container.write(600, "weights 600")
    known = [Checkpoint(49, str(container.checkpoints / "checkpoint-500" / "model.pt"))]
    open_store(f"{tmp_path}/second/{TENSORS}").put(checkpoints_key("worker_0"), encode_checkpoints(known))
    second = Container(container.root, tmp_path / "second")
    order = Resumption("digits", 2, f"arn:aws:sagemaker:eu-west-1:1:training-job/{JOB}@9", 49, 80, "", ("a", "b"))
    second.prepare(order)
    assert second.names() == ["checkpoint-400", "checkpoint-500"]
    given = container.checkpoints / ".trackside-set-aside/digits-resumed-2/order.json"
    assert Order.from_json(given.read_bytes()).is_again


@pytest.mark.parametrize(
    ("reports", "left_out"),
    [
        pytest.param([], (), id="the job told none"),
        pytest.param(
            [
                Report(Met.FAULT, first_step=510, at_step=640, is_of_batch=True, left_out=(LeftOut("data", (3, 4)),)),
                Report(Met.FAULT, first_step=511, at_step=640, is_of_batch=True, left_out=(LeftOut("data", (9,)),)),
            ],
            (LeftOut("data", (3, 4, 9)),),
            id="of both ranks",
        ),
        pytest.param([Report(Met.CONFIRMED, at_step=30)], (), id="an earlier fault is over"),
    ],
)
def test_the_batches_of_the_fault_are_left_out(
    container: Container, reports: list[Report], left_out: tuple[LeftOut, ...]
) -> None:
    for number, report in enumerate(reports):
        open_store(str(container.earlier)).put(f"restart/worker_{number}.json", report.to_json().encode())
        open_store(str(container.earlier)).put(f"restart/ended_worker_{number}.json", b"no matter")
    container.prepare()
    path = container.checkpoints / f".trackside-set-aside/{JOB}/order.json"
    order = Order.from_json(path.read_bytes())
    assert (order.left_out, order.is_again) == (left_out, False)
    assert order.resume_from == str(container.checkpoints / "checkpoint-500")
    assert RescueEnvironment.read({"TRACKSIDE_LEAVE_OUT": str(path)}).leave_out == str(path)


def refuse(container: Container) -> None:
    report = Report(Met.FAULT, first_step=510, at_step=640, refusal="its losses had risen before")
    open_store(str(container.earlier)).put("restart/worker_0.json", report.to_json().encode())


def drop_checkpoints(container: Container) -> None:
    shutil.rmtree(container.checkpoints)
    container.checkpoints.mkdir()


def break_list(container: Container) -> None:
    (container.earlier / TENSORS / checkpoints_key("worker_0")).write_text("{")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        pytest.param(refuse, "its losses had risen before", id="the job said that it cannot be cured"),
        pytest.param(drop_checkpoints, "wrote no checkpoint", id="S3 brought none"),
        pytest.param(break_list, "checkpoints/worker_0.json", id="the list is damaged"),
    ],
)
def test_what_cannot_go_on_ends_before_the_script(
    container: Container, spoil: Callable[[Container], None], why: str
) -> None:
    spoil(container)
    before = container.names()
    done = container.start()
    assert (done.returncode, done.stdout) == (1, "")
    assert why in (container.root / "output" / "failure").read_text()
    assert container.names() == before


def test_another_job_is_left_alone(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACKSIDE_RESUMED", raising=False)
    resumed_job.prepare()
    assert len(container.names()) == 4
