"""A pod: facts, settings, what is sent to the API server, and what becomes of it when the server fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.training_lib.clusters.kubernetes_fake import FakeServer, check, serving
from tests.training_lib.local.verdicts import issue
from trackside.clusters.kubernetes import PodJob, kubernetes_pod
from trackside.clusters.own_job import scheduler_of
from trackside.clusters.owners import SUSPENDED_BY
from trackside.local.jobs.scheduler import JobError

POD = "/api/v1/namespaces/team/pods/digits-0"
JOB = "/apis/batch/v1/namespaces/team/jobs/digits"
EXAMPLES = Path(__file__).parents[3] / "examples" / "kubernetes"


def controller(version: str, kind: str, uid: str = "uid-of-the-job", name: str = "digits") -> list[dict[str, Any]]:
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}]


def pod(owners: list[dict[str, Any]], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "digits-0",
            "uid": "uid-of-the-pod",
            "ownerReferences": owners,
            "annotations": annotations or {},
        },
        "spec": {"containers": [{"name": "train", "image": "digits:1"}], "serviceAccountName": "trackside"},
    }


def job(owners: list[dict[str, Any]] | None = None, uid: str = "uid-of-the-job") -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "train", "image": "digits:1"}]}}
    metadata = {"name": "digits", "uid": uid, "ownerReferences": owners or []}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def other(version: str, kind: str, owners: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    metadata = {"name": "digits", "uid": "uid-of-another", "ownerReferences": owners or []}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeServer]:
    with serving(tmp_path) as fake:
        yield fake


def seen(server: FakeServer) -> PodJob:
    found = kubernetes_pod(server.environ, sleep=lambda _: None)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"KUBERNETES_SERVICE_HOST": ""}, id="no-cluster"),
        pytest.param({"TRACKSIDE_SERVICE_ACCOUNT": "/nowhere"}, id="no-service-account"),
        pytest.param({"POD_NAME": "", "HOSTNAME": ""}, id="no-name"),
    ],
)
def test_outside_a_pod_there_is_none(server: FakeServer, changes: dict[str, str]) -> None:
    assert kubernetes_pod({**server.environ, **changes}) is None
    assert server.requests == []


def test_its_facts_are_those_of_the_job_above(server: FakeServer) -> None:
    index = {"batch.kubernetes.io/job-completion-index": "3", "trackside/on-issue": "stop", "other/on-issue": "never"}
    document = server.add(POD, pod(controller("batch/v1", "Job"), index))
    document["spec"]["nodeName"] = "gpu-7"
    document["status"] = {"containerStatuses": [{"restartCount": 2}]}
    server.add(JOB, job())
    found = seen(server)
    assert (found.job.id, found.job.uid, found.job.array_index) == ("team/Job/digits", "uid-of-the-job", 3)
    assert (found.job.node, found.job.user, found.job.restarts) == ("gpu-7", "trackside", 2)
    assert found.settings == {"on-issue": "stop"}
    assert found.problem == ""


def test_a_verdict_becomes_a_condition_and_two_events(server: FakeServer, tmp_path: Path) -> None:
    document = server.add(POD, pod(controller("batch/v1", "Job")))
    ready = {"type": "Ready", "status": "True", "reason": "R", "lastTransitionTime": "2026-11-30T10:00:00Z"}
    document["status"] = {"conditions": [ready]}
    server.add(JOB, job())
    found = seen(server)
    found.report(issue("exploding-tensor"), tmp_path)
    found.report(issue("dead-relu"), tmp_path)
    kept, ours = server.objects[POD]["status"]["conditions"]
    assert kept == ready
    assert (ours["type"], ours["status"], ours["reason"]) == ("trackside/IssueFound", "True", "DeadRelu")
    assert [event["involvedObject"]["kind"] for event in server.created] == ["Pod", "Job"] * 2
    assert server.created[0]["message"].startswith("critical exploding-tensor since step 4: 12 of 22")
    assert {event["type"] for event in server.created} == {"Warning"}


@pytest.mark.parametrize(
    ("version", "kind", "path", "patch"),
    [
        pytest.param(
            f"{group}/v1",
            kind,
            f"/apis/{group}/v1/namespaces/team/{kind.lower()}s/digits",
            patch,
            id=kind,
        )
        for (group, kind), patch in SUSPENDED_BY.items()
    ],
)
def test_the_owner_is_suspended(server: FakeServer, version: str, kind: str, path: str, patch: dict[str, Any]) -> None:
    server.add(POD, pod(controller(version, kind)))
    server.add(path, {**job(), "apiVersion": version, "kind": kind})
    seen(server).end("exploding-tensor")
    for name, value in patch["spec"].items():
        assert server.objects[path]["spec"][name] == value
    assert [request for request in server.requests if request[0] == "PATCH"] == [("PATCH", path)]


@pytest.mark.parametrize(
    ("above", "suspended"),
    [
        pytest.param([("jobset.x-k8s.io/v1alpha2", "JobSet")], "JobSet", id="job-set"),
        pytest.param(
            [("jobset.x-k8s.io/v1alpha2", "JobSet"), ("trainer.kubeflow.org/v1alpha1", "TrainJob")],
            "TrainJob",
            id="train-job",
        ),
        pytest.param([("batch/v1", "CronJob")], "Job", id="cron-job-goes-on"),
        pytest.param([("argoproj.io/v1alpha1", "Workflow")], "Job", id="unknown-goes-on"),
    ],
)
def test_the_topmost_training_is_suspended(server: FakeServer, above: list[tuple[str, str]], suspended: str) -> None:
    chain = [("batch/v1", "Job"), *above]
    server.add(POD, pod(controller("batch/v1", "Job", name="digits")))
    for place, (version, kind) in enumerate(chain):
        owners = controller(*chain[place + 1], uid="uid-of-another") if place + 1 < len(chain) else []
        document = job(owners) if kind == "Job" else other(version, kind, owners)
        server.add(f"/apis/{version}/namespaces/team/{kind.lower()}s/digits", document)
    seen(server).end("exploding-tensor")
    found = {one["kind"]: one["spec"].get("suspend") for path, one in server.objects.items() if path != POD}
    assert found == {kind: True if kind == suspended else None for _, kind in chain}


def test_a_job_made_anew_under_the_same_name_is_another(server: FakeServer) -> None:
    server.add(POD, pod(controller("batch/v1", "Job", uid="uid-of-the-old-one")))
    server.add(JOB, job())
    with pytest.raises(JobError, match="another one by now"):
        seen(server).end("exploding-tensor")
    assert "suspend" not in server.objects[JOB]["spec"]


@pytest.mark.parametrize(
    ("owners", "why"),
    [
        pytest.param([], "belongs to no job", id="bare-pod"),
        pytest.param(controller("apps/v1", "ReplicaSet"), "a ReplicaSet, which Trackside cannot suspend", id="service"),
        pytest.param(controller("sagemaker.amazonaws.com/v1", "HyperPodPyTorchJob"), "HyperPodPyT", id="hyperpod"),
        pytest.param([{**controller("batch/v1", "Job")[0], "controller": False}], "no job", id="not-its-controller"),
    ],
)  # fmt: skip
def test_what_is_no_training_is_left_alone(server: FakeServer, owners: list[dict[str, Any]], why: str) -> None:
    server.add(POD, pod(owners))
    with pytest.raises(JobError, match=why):
        seen(server).end("exploding-tensor")
    assert {verb for verb, _ in server.requests} == {"GET"}


@pytest.mark.parametrize(
    ("faults", "tries"),
    [
        pytest.param([409], 2, id="conflict"),
        pytest.param([503, 500], 3, id="unavailable"),
        pytest.param([429], 2, id="too-many-requests"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot json!"], 2, id="no-json"),
        pytest.param([b""], 2, id="cut-connection"),
    ],
)
def test_what_may_pass_is_tried_again(server: FakeServer, faults: list[int | bytes], tries: int) -> None:
    server.add(POD, pod(controller("batch/v1", "Job")))
    server.add(JOB, job())
    found = seen(server)
    before = len(server.requests)
    server.faults[:] = faults
    found.api.patch(JOB, {"spec": {"suspend": True}})
    assert len(server.requests) - before == tries
    assert server.objects[JOB]["spec"]["suspend"] is True


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        pytest.param([403], r"refused with 403 \(403\)", id="forbidden"),
        pytest.param([404], r"refused with 404", id="gone"),
        pytest.param([422], r"refused with 422", id="invalid"),
        pytest.param([409] * 3, r"refused with 409", id="conflict-for-ever"),
        pytest.param([b"nonsense\r\n\r\n"] * 3, "does not answer PATCH", id="nonsense-for-ever"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"] * 3, "is no object", id="no-object"),
        pytest.param([b'HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\n"x'], r"No \(403\)", id="no-status"),
    ],
)
def test_a_refusal_is_a_sentence(server: FakeServer, faults: list[int | bytes], why: str) -> None:
    server.add(POD, pod(controller("batch/v1", "Job")))
    server.add(JOB, job())
    found = seen(server)
    server.faults[:] = faults
    with pytest.raises(JobError, match=why):
        found.api.patch(JOB, {"spec": {"suspend": True}})


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        pytest.param([403], "", id="never-given-the-right"),
        pytest.param([503, 503], "refused with 503", id="server-down"),
        pytest.param([404], "refused with 404", id="wrong-name"),
    ],
)
def test_a_pod_that_cannot_be_read_is_still_a_job(server: FakeServer, faults: list[int | bytes], problem: str) -> None:
    server.add(POD, pod([]))
    server.faults[:] = faults
    found = seen(server)
    assert (found.job.id, found.settings) == ("team/Pod/digits-0", {})
    assert (problem in found.problem) if problem else found.problem == ""
    with pytest.raises(JobError):
        found.end("exploding-tensor")


def test_a_server_that_is_not_there_is_a_problem(server: FakeServer) -> None:
    environ = {**server.environ, "KUBERNETES_SERVICE_PORT": "1"}
    found = kubernetes_pod(environ, sleep=lambda _: None)
    assert found is not None
    assert "does not answer" in found.problem


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"metadata": {"ownerReferences": [{"controller": True}]}}, id="owner-without-a-name"),
        pytest.param({"metadata": ["digits-0"]}, id="no-object"),
        pytest.param({"status": {"containerStatuses": [{"restartCount": "often"}]}}, id="no-number"),
        pytest.param({"metadata": {"annotations": ["trackside/on-issue"]}}, id="no-annotations"),
    ],
)
def test_an_answer_of_another_form_keeps_no_training_from_starting(server: FakeServer, answer: dict[str, Any]) -> None:
    server.objects[POD] = answer
    assert scheduler_of(server.environ) is None


def test_in_a_pod_the_scheduler_is_kubernetes_and_elsewhere_there_is_none(server: FakeServer) -> None:
    server.add(POD, pod([]))
    found = scheduler_of(server.environ)
    assert found is not None
    assert found.job.id == "team/Pod/digits-0"
    assert scheduler_of({}) is None


def test_the_examples_are_what_kubernetes_takes() -> None:
    for file in EXAMPLES.glob("*.yaml"):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            check(document)


def test_the_role_has_a_rule_for_each_kind_and_no_more() -> None:
    _, role, _ = yaml.safe_load_all((EXAMPLES / "role.yaml").read_text(encoding="utf-8"))
    patched = {
        (group, resource)
        for rule in role["rules"]
        if rule["verbs"] == ["get", "patch"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert patched == {(group, f"{kind.lower()}s") for group, kind in SUSPENDED_BY}
