"""A pod of Kubernetes: its condition and an event show the verdict, and a stop suspends the job above it.

Nothing is installed in the cluster but a Role (examples/kubernetes): the pod acts with its own service account.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from time import sleep, time
from typing import Any
from urllib.parse import quote

from trackside.clusters.kubernetes_api import STRATEGIC_PATCH, ClusterApi
from trackside.clusters.owners import Owner, owners_of, suspend_top
from trackside.contracts.run.cluster_job import KUBERNETES, ClusterJob
from trackside.contracts.verdict import Verdict
from trackside.environment import KubernetesEnvironment
from trackside.local.jobs.scheduler import JobDefaults, JobError, sentence_of

PREFIX = "trackside/"  # of the annotations that are settings
CONDITION = "trackside/IssueFound"
FIRST_TRIES = 2  # of the requests that the start of a training waits for
FOUND, STOPPED = "IssueFound", "TrainingStopped"


@dataclass(frozen=True)
class PodJob(JobDefaults):
    """A pod, seen from a process in it.

    pod        the pod as the server has it; None if it could not be read
    top        the topmost job above it; None if there is none, or if it could not be read
    refusal    why something could not be read; None if all was
    now        returns seconds since the epoch
    """

    api: ClusterApi
    namespace: str
    name: str
    pod: Mapping[str, Any] | None
    top: Owner | None = None
    refusal: JobError | None = None
    now: Callable[[], float] = field(default=time)

    @property
    def job(self) -> ClusterJob:
        """The job above the pod; the pod itself without one, or without the right to read it."""
        pod = self.pod or {}
        spec, metadata = pod.get("spec") or {}, pod.get("metadata") or {}
        index = (metadata.get("annotations") or {}).get("batch.kubernetes.io/job-completion-index", "")
        kind, name = (self.top.kind, self.top.name) if self.top else ("Pod", self.name)
        return ClusterJob(
            scheduler=KUBERNETES,
            id=f"{self.namespace}/{kind}/{name}",
            name=name,
            node=str(spec.get("nodeName") or ""),
            uid=self.top.uid if self.top else str(metadata.get("uid") or ""),
            user=str(spec.get("serviceAccountName") or ""),
            array_index=int(index) if index.isdigit() else None,
            restarts=sum(
                one.get("restartCount", 0) for one in (pod.get("status") or {}).get("containerStatuses") or ()
            ),
        )

    @property
    def settings(self) -> dict[str, str]:
        """The annotations `trackside/<setting>` of the pod, by setting."""
        metadata = (self.pod or {}).get("metadata") or {}
        given = metadata.get("annotations") or {}
        return {name[len(PREFIX) :]: str(text) for name, text in given.items() if name.startswith(PREFIX)}

    @property
    def problem(self) -> str:
        """Why the pod's settings are unknown; "" for a pod that was never given the right to read them."""
        return "" if self.refusal is None or self.refusal.is_forbidden else str(self.refusal)

    def report(self, verdict: Verdict, run: Path) -> None:
        """Set a condition of the pod, and publish an event of the pod and of its job."""
        self._show(FOUND, _camel_case(verdict.rule_id), sentence_of(verdict))

    def withhold(self, reason: str) -> None:
        """Show that the training is being stopped. Its job starts it no more once it is suspended."""
        self._show(STOPPED, STOPPED, reason)

    def end(self, reason: str) -> None:
        """Suspend the topmost job above this pod."""
        suspend_top(self._pod(), self.namespace, self.api)

    def _show(self, reason: str, why: str, message: str) -> None:
        problems = []
        for act in (lambda: self._condition(why, message), *self._events(reason, message)):
            try:
                act()
            except JobError as error:
                problems.append(str(error))
        if problems:
            raise JobError(" ".join(problems))

    def _condition(self, why: str, message: str) -> None:
        condition = {
            "type": CONDITION,
            "status": "True",
            "reason": why,
            "message": message,
            "lastTransitionTime": self._moment(),
        }
        path = f"{self._pod_path}/status"
        self.api.patch(path, {"status": {"conditions": [condition]}}, STRATEGIC_PATCH)

    def _events(self, reason: str, message: str) -> list[Callable[[], object]]:
        pod = self._pod()
        about = [{"apiVersion": "v1", "kind": "Pod", "name": self.name, "namespace": self.namespace}]
        about[0]["uid"] = pod["metadata"]["uid"]
        if self.top:
            about.append(self.top.reference())
        return [lambda one=one: self._event(one, reason, message) for one in about]  # type: ignore[misc]

    def _event(self, about: Mapping[str, str], reason: str, message: str) -> None:
        now = self._moment()
        self.api.create(
            f"/api/v1/namespaces/{quote(self.namespace)}/events",
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"generateName": f"{self.name[:200]}-trackside-", "namespace": self.namespace},
                "involvedObject": dict(about),
                "type": "Warning",
                "reason": reason,
                "message": message,
                "source": {"component": "trackside"},
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            },
        )

    @property
    def _pod_path(self) -> str:
        return f"/api/v1/namespaces/{quote(self.namespace)}/pods/{quote(self.name)}"

    def _pod(self) -> Mapping[str, Any]:
        if self.pod is None:
            raise JobError(str(self.refusal))
        return self.pod

    def _moment(self) -> str:
        return datetime.fromtimestamp(self.now(), tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def kubernetes_pod(environ: Mapping[str, str], *, sleep: Callable[[float], object] = sleep) -> PodJob | None:
    """Return the pod that a process runs in; None outside a pod, and for a pod without a service account.

    Args:
        environ: The variables of the process.
        sleep: Waits between two tries of a request.
    """
    env = KubernetesEnvironment.read(environ)
    if not (env.host and env.pod):
        return None
    try:
        namespace = (env.service_account / "namespace").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    host = f"[{env.host}]" if ":" in env.host else env.host
    api = ClusterApi(f"https://{host}:{env.port}", env.service_account, sleep)
    return _seen(PodJob(api, namespace, env.pod, None))


def _seen(found: PodJob) -> PodJob:
    """Return the pod as the server has it, and the topmost job above it."""
    pod: Mapping[str, Any] | None = None
    top: Owner | None = None
    refusal: JobError | None = None
    try:
        hasty = replace(found.api, tries=FIRST_TRIES)
        pod = hasty.get(found._pod_path)
        for owner in owners_of(pod, found.namespace, hasty):
            top = owner
    except JobError as error:
        refusal = error
    return replace(found, pod=pod, top=top, refusal=refusal)


def _camel_case(name: str) -> str:
    """Return a rule's name as reasons are written: `ExplodingTensor`."""
    return "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", name)) or FOUND
