"""A real API server of Kubernetes on this machine, with etcd, RBAC and TLS; without a node or a controller.

Debian has etcd (`apt-get install etcd-server`). kube-apiserver has to be on PATH: from a release of Kubernetes, or
built from its source.
"""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.journeys.slurm_cluster import free_ports
from tests.patience import wait_until

PROGRAMS = ("etcd", "kube-apiserver")
ADMIN = "admin-of-this-test"


def why_there_is_none() -> str:
    """Return why no server can be started here; "" if one can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"not on PATH: {', '.join(missing)} (see tests/journeys/kubernetes_server.py)" if missing else ""


@dataclass(frozen=True)
class Server:
    """A running API server, asked as its administrator.

    folder  its certificates and logs
    port    of 127.0.0.1
    """

    folder: Path
    port: int

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates" / "apiserver.crt"

    def request(self, verb: str, path: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer to a request."""
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}",
            method=verb,
            data=None if document is None else json.dumps(document).encode(),
            headers={"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"},
        )
        trusted = ssl.create_default_context(cafile=str(self.certificates))
        try:
            with urllib.request.urlopen(request, context=trusted, timeout=60) as answer:  # noqa: S310 - as above
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{verb} {path}: {error.read().decode()}") from error
        return found

    def apply(self, file: Path, namespace: str) -> list[dict[str, Any]]:
        """Create the objects of a manifest in a namespace."""
        return [self.create(document, namespace) for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))]

    def create(self, document: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        """Create one object in a namespace."""
        version, kind = document["apiVersion"], document["kind"]
        document = {**document, "metadata": {**document["metadata"], "namespace": namespace}}
        if kind == "RoleBinding":
            document["subjects"] = [{**one, "namespace": namespace} for one in document["subjects"]]
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        return self.request("POST", f"{root}/namespaces/{namespace}/{kind.lower()}s", document)

    def define(self, group: str, version: str, kind: str) -> None:
        """Define a kind as its operator would, with a spec of any form."""
        plural = f"{kind.lower()}s"
        any_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": any_object, "status": any_object}}}
        versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
        spec = {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "listKind": f"{kind}List", "singular": kind.lower()},
            "versions": versions,
        }
        self.request(
            "POST",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.{group}"},
                "spec": spec,
            },
        )
        path = f"/apis/{group}/{version}/namespaces/default/{plural}"
        wait_until(lambda: self._answers(path), f"the kind {kind}", look_seconds=0.1)

    def service_account(self, namespace: str, name: str, folder: Path) -> Path:
        """Write what Kubernetes mounts into a pod of a service account, and return its folder."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
        answer = self.request("POST", path, request)
        folder.mkdir(exist_ok=True)
        (folder / "token").write_text(answer["status"]["token"], encoding="utf-8")
        (folder / "namespace").write_text(namespace, encoding="utf-8")
        shutil.copy(self.certificates, folder / "ca.crt")
        return folder

    def _answers(self, path: str) -> bool:
        try:
            self.request("GET", path)
        except (AssertionError, OSError):
            return False
        return True


@contextmanager
def server_in(folder: Path) -> Iterator[Server]:
    """Start a server whose files lie in a folder, and end it."""
    client, peer, port = free_ports(3)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    (folder / "accounts.key").write_bytes(pem)
    (folder / "tokens.csv").write_text(f"{ADMIN},admin,1,system:masters\n", encoding="utf-8")
    commands = (
        ["etcd", f"--data-dir={folder}/etcd", f"--listen-client-urls=http://127.0.0.1:{client}",
         f"--advertise-client-urls=http://127.0.0.1:{client}", f"--listen-peer-urls=http://127.0.0.1:{peer}"],
        ["kube-apiserver", f"--etcd-servers=http://127.0.0.1:{client}", f"--secure-port={port}",
         "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--authorization-mode=RBAC",
         f"--cert-dir={folder}/certificates", f"--token-auth-file={folder}/tokens.csv",
         "--service-account-issuer=https://kubernetes.default.svc",
         f"--service-account-key-file={folder}/accounts.key",
         f"--service-account-signing-key-file={folder}/accounts.key",
         "--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount"],
    )  # fmt: skip
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (folder / f"{command[0]}.log").open("wb") as log:
                started.append(subprocess.Popen(command, stdout=log, stderr=log))
        server = Server(folder, port)
        wait_until(lambda: _is_ready(server, started), "the API server", look_seconds=0.2)
        yield server
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def _is_ready(server: Server, started: list[subprocess.Popen[bytes]]) -> bool:
    log = (server.folder / "kube-apiserver.log").read_text(errors="replace")
    assert all(process.poll() is None for process in started), log[-2000:]
    return server.certificates.exists() and server._answers("/api/v1/namespaces/default")
