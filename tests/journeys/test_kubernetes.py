"""Trainings in pods of a real API server: verdicts in conditions and events, and the job above suspended by its Role.

The pods are objects of the server, and `trackside run` is a process of this machine that sees what a container sees.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.journeys.kubernetes_server import Server, server_in, why_there_is_none
from tests.patience import HANGS_SECONDS
from trackside.environment import inherited
from trackside.runs.run_folder import RunRecord, local_runs, read_record

pytestmark = [pytest.mark.skipif(bool(why_there_is_none()), reason=why_there_is_none()), pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples" / "kubernetes"
TRAINING = """
import sys, time, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64, 4); y = x.sum(1, keepdim=True)
for step in range(20):
    loss = torch.nn.functional.mse_loss(model(x), y)
    if sys.argv[1] == "bad" and step >= 5:
        loss = loss * float("nan")
    optimizer.zero_grad(); loss.backward(); optimizer.step()
while sys.argv[1] == "bad":
    time.sleep(0.1)
"""
STOP = {"trackside/on-issue": "stop", "trackside/cluster-job": "stop"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server_in(tmp_path_factory.mktemp("kubernetes")) as server:
        server.define("jobset.x-k8s.io", "v1alpha2", "JobSet")
        server.define("kubeflow.org", "v1", "PyTorchJob")
        yield server


@dataclass(frozen=True)
class Space:
    """A namespace, with the service account of the example."""

    server: Server
    name: str
    work: Path

    def create(self, document: Mapping[str, Any], owner: Mapping[str, Any] | None = None) -> dict[str, Any]:
        metadata = dict(document["metadata"])
        if owner is not None:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ]
        made = self.server.create({**document, "metadata": metadata}, self.name)
        return {"apiVersion": document["apiVersion"], "kind": document["kind"], **made}

    def pod(self, owner: Mapping[str, Any] | None, annotations: Mapping[str, str]) -> None:
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "digits-0", "annotations": dict(annotations)},
            "spec": {
                "serviceAccountName": "trackside",
                "nodeName": "gpu-7",
                "containers": [{"name": "train", "image": "digits:1"}],
            },
        }
        self.create(document, owner)

    def get(self, path: str) -> dict[str, Any]:
        return self.server.request("GET", path.format(space=f"namespaces/{self.name}"))

    def events(self) -> list[tuple[str, str, str]]:
        found = self.get("/api/v1/{space}/events")["items"]
        ours = [one for one in found if one["source"].get("component") == "trackside"]
        return sorted((one["reason"], one["involvedObject"]["kind"], one["message"]) for one in ours)

    def train(self, how: str, *options: str) -> subprocess.CompletedProcess[str]:
        (self.work / "train.py").write_text(TRAINING, encoding="utf-8")
        account = self.server.service_account(self.name, "trackside", self.work / "account")
        environment = {
            **inherited(),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.server.port),
            "POD_NAME": "digits-0",
            "TRACKSIDE_SERVICE_ACCOUNT": str(account),
        }
        run = ("run", "--only", "exploding-tensor", "--sample-interval", "0", *options)
        command = (sys.executable, "-m", "trackside", *run, "--", sys.executable, "train.py", how)
        return subprocess.run(
            command, cwd=self.work, env=environment, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False
        )

    def record(self) -> RunRecord:
        (folder,) = local_runs(self.work / ".trackside" / "runs")
        record = read_record(folder)
        assert record is not None
        return record


@pytest.fixture
def space(server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Space:
    name = f"space-{abs(hash(request.node.name)) % 10**9}"
    server.request("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    server.apply(EXAMPLES / "role.yaml", name)
    return Space(server, name, tmp_path)


def manifest(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    return found


def job_set() -> dict[str, Any]:
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "digits"}, "spec": {}}


def test_an_issue_suspends_the_pytorchjob_of_the_pod(space: Space) -> None:
    """The settings are the annotations of the pod: no option asks for a stop."""
    owner = space.create(manifest("pytorchjob.yaml"))
    space.pod(owner, STOP)
    done = space.train("bad")
    assert done.returncode == 1, done.stderr
    assert "The job:" not in done.stderr
    after = space.get("/apis/kubeflow.org/v1/{space}/pytorchjobs/digits")
    assert after["spec"]["runPolicy"] == {"suspend": True}
    assert set(after["spec"]["pytorchReplicaSpecs"]) == {"Master", "Worker"}
    events = space.events()
    assert [event[:2] for event in events] == [
        ("IssueFound", "Pod"),
        ("IssueFound", "PyTorchJob"),
        ("TrainingStopped", "Pod"),
        ("TrainingStopped", "PyTorchJob"),
    ]
    assert "critical exploding-tensor since step" in events[0][2]
    (condition,) = space.get("/api/v1/{space}/pods/digits-0/status")["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("trackside/IssueFound", "True")
    record = space.record()
    assert record.stopped_by_trackside
    assert (record.job.id, record.job.node) == (f"{space.name}/PyTorchJob/digits", "gpu-7")
    assert (record.job.user, record.job.uid) == ("trackside", owner["metadata"]["uid"])


def test_of_a_chain_of_owners_the_topmost_is_suspended(space: Space) -> None:
    top = space.create(job_set())
    job = space.create(manifest("job.yaml"), top)
    space.pod(job, STOP)
    assert space.train("bad").returncode == 1
    assert space.get("/apis/jobset.x-k8s.io/v1alpha2/{space}/jobsets/digits")["spec"] == {"suspend": True}
    assert space.get("/apis/batch/v1/{space}/jobs/digits")["spec"].get("suspend") in {None, False}


def test_a_job_is_suspended_where_the_server_knows_how(space: Space) -> None:
    """`spec.suspend` of Jobs came with Kubernetes 1.21; an older server drops it without a word."""
    document = manifest("job.yaml")
    document["spec"]["suspend"] = False
    job = space.create(document)
    space.pod(job, STOP)
    done = space.train("bad")
    assert done.returncode == 1
    after = space.get("/apis/batch/v1/{space}/jobs/digits")["spec"]
    if "suspend" in job["spec"]:
        assert after["suspend"] is True
        assert "The job:" not in done.stderr
    else:
        assert "suspend" not in after
        assert "was not suspended: this version of it has no such field" in done.stderr


@pytest.mark.parametrize(
    ("how", "annotations", "events"),
    [
        pytest.param("good", STOP, 0, id="no-issue"),
        pytest.param("bad", {"trackside/on-issue": "stop"}, 0, id="no-leave"),
        pytest.param("bad", {"trackside/on-issue": "stop", "trackside/cluster-job": "report"}, 2, id="leave-to-report"),
    ],
)
def test_a_job_is_left_alone(space: Space, how: str, annotations: Mapping[str, str], events: int) -> None:
    space.pod(space.create(job_set()), annotations)
    done = space.train(how)
    assert done.returncode == (0 if how == "good" else 1)
    assert space.get("/apis/jobset.x-k8s.io/v1alpha2/{space}/jobsets/digits")["spec"] == {}
    assert len(space.events()) == events


def test_without_the_role_a_training_is_stopped_all_the_same(space: Space) -> None:
    space.server.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space.name}/rolebindings/trackside")
    space.pod(space.create(job_set()), STOP)
    done = space.train("bad", "--on-issue", "stop", "--cluster-job", "stop")
    assert done.returncode == 1
    assert "is forbidden" in done.stderr
    assert 'cannot get resource "pods"' in done.stderr
    assert space.record().job.id == f"{space.name}/Pod/digits-0"


def test_a_pod_that_was_never_given_the_role_is_told_nothing(space: Space) -> None:
    space.server.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space.name}/rolebindings/trackside")
    space.pod(None, {})
    done = space.train("good")
    assert done.returncode == 0
    assert "forbidden" not in done.stderr


def test_a_right_that_is_missing_is_named(space: Space) -> None:
    """Each is needed: without `patch` of the job, verdicts are shown, and the refusal names the verb and the object."""
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space.name}/roles/trackside"
    document = space.server.request("GET", role)
    for rule in document["rules"]:
        if rule["resources"] != ["pods/status"] and "patch" in rule["verbs"]:
            rule["verbs"] = ["get"]
    space.server.request("PUT", role, document)
    space.pod(space.create(job_set()), STOP)
    done = space.train("bad")
    assert done.returncode == 1
    assert 'cannot patch resource "jobsets"' in done.stderr
    assert len(space.events()) == 4


def test_the_role_permits_nothing_else(space: Space) -> None:
    """Asked of the server's own authorizer."""
    user = f"system:serviceaccount:{space.name}:trackside"
    wanted = {
        ("get", "", "pods"): True,
        ("create", "", "events"): True,
        ("patch", "batch", "jobs"): True,
        ("list", "", "pods"): False,
        ("patch", "", "pods"): False,
        ("delete", "", "pods"): False,
        ("get", "", "secrets"): False,
        ("delete", "batch", "jobs"): False,
        ("create", "batch", "jobs"): False,
    }
    found = {}
    for verb, group, resource in wanted:
        attributes = {"namespace": space.name, "verb": verb, "group": group, "resource": resource}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        answer = space.server.request(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {**review, "spec": {"user": user, "resourceAttributes": attributes}},
        )
        found[verb, group, resource] = answer["status"]["allowed"]
    assert json.dumps([*found.values()]) == json.dumps([*wanted.values()])
