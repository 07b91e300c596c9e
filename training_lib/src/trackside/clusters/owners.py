"""The owners of a pod: from the pod to the object that a person made, and how each kind of it is suspended.

A suspended job deletes its pods and makes no new ones, and keeps its objects, events and the chance to resume:
https://www.kubernetes.dev/resources/keps/2232/ for Jobs, and the same field in JobSet and Kubeflow's kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from trackside.clusters.kubernetes_api import ClusterApi
from trackside.local.jobs.scheduler import JobError

MOST_OWNERS = 8  # above a pod; more would be a circle
_SUSPENDED: Mapping[str, Any] = {"spec": {"suspend": True}}
_SUSPENDED_BY_POLICY: Mapping[str, Any] = {"spec": {"runPolicy": {"suspend": True}}}
_KUBEFLOW = ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
SUSPENDED_BY: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("batch", "Job"): _SUSPENDED,
    ("jobset.x-k8s.io", "JobSet"): _SUSPENDED,
    ("trainer.kubeflow.org", "TrainJob"): _SUSPENDED,
    **{("kubeflow.org", kind): _SUSPENDED_BY_POLICY for kind in _KUBEFLOW},
}
"""The patch that suspends a job, by its API group and kind. No CronJob: nobody asked to stop its further jobs."""


@dataclass(frozen=True)
class Owner:
    """An object that owns a pod, directly or through others."""

    api_version: str
    kind: str
    name: str
    uid: str
    namespace: str

    @property
    def path(self) -> str:
        """Its path on the API server."""
        plural = f"{self.kind.lower()}s"
        return f"/apis/{self.api_version}/namespaces/{quote(self.namespace)}/{plural}/{quote(self.name)}"

    @property
    def key(self) -> tuple[str, str]:
        """Its API group and kind, whichever version it has."""
        return self.api_version.partition("/")[0], self.kind

    def reference(self) -> dict[str, str]:
        """Return what names it in an event."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
        }


def owner_of(document: Mapping[str, Any], namespace: str) -> Owner | None:
    """Return the controller of an object, from its metadata; None for an object that a person made."""
    metadata = document.get("metadata") or {}
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            return Owner(reference["apiVersion"], reference["kind"], reference["name"], reference["uid"], namespace)
    return None


def owners_of(pod: Mapping[str, Any], namespace: str, api: ClusterApi) -> Iterator[Owner]:
    """Yield the jobs above a pod, the nearest first, as far as they are kinds of trainings.

    Errors: `JobError` for one that cannot be read, and for another of its name.
    """
    document = pod
    for _ in range(MOST_OWNERS):
        owner = owner_of(document, namespace)
        if owner is None or owner.key not in SUSPENDED_BY:
            return
        document = api.get(owner.path)
        if (document.get("metadata") or {}).get("uid") != owner.uid:
            raise JobError(f"{owner.kind} {owner.name} is another one by now.")
        yield owner


def suspend_top(pod: Mapping[str, Any], namespace: str, api: ClusterApi) -> Owner:
    """Suspend the topmost job above a pod, which would else make the ones below it anew. Return it.

    Errors: `JobError` if there is none, if it cannot be read or changed.
    """
    chain = list(owners_of(pod, namespace, api))
    if not chain:
        nearest = owner_of(pod, namespace)
        of_what = f"a {nearest.kind}, which Trackside cannot suspend" if nearest else "no job"
        raise JobError(f"The pod belongs to {of_what}: it ends with its exit code alone.")
    top = chain[-1]
    answer = api.patch(top.path, SUSPENDED_BY[top.key])
    if not _is_suspended(answer, SUSPENDED_BY[top.key]):  # a server drops fields that it does not know
        raise JobError(f"{top.kind} {top.name} was not suspended: this version of it has no such field.")
    return top


def _is_suspended(answer: Any, patch: Any) -> bool:
    if isinstance(patch, Mapping):
        return isinstance(answer, Mapping) and all(_is_suspended(answer.get(name), patch[name]) for name in patch)
    return bool(answer == patch)
