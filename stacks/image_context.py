"""The build context of a rule container's image: its Dockerfile and all that this copies, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import trackside
from stacks.paths import BUILD, ROOT

CONTAINERS = ROOT / "rule_containers"
LOCK = "requirements.lock"
# Folders of the wheels that each image installs.
WHEELS: Mapping[str, tuple[str, ...]] = {"evaluator": (".",), "custom_rule": (".", "training_lib/compat")}
_PINNED = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?P<marker>[^\n]*)", re.MULTILINE)
_OLDER_PYTHON = "python_full_version <"  # than the image's: a version of that line is for tests on this machine
_BASE = re.compile(r"^FROM (?P<tag>[\w./-]+:[\w.-]+)@(?P<digest>sha256:[0-9a-f]{64})$", re.MULTILINE)


def write_context(which: str, folder: Path | None = None) -> Path:
    """Write the build context of an image, with wheels of this clone as it is. Return its folder.

    Args:
        which: The folder of the container, `evaluator` or `custom_rule`.
        folder: The folder, whose content is replaced; None: one below `build/`.
    """
    folder = folder or BUILD / "image" / which
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "wheels").mkdir(parents=True)
    for source in (CONTAINERS / which / "Dockerfile", CONTAINERS / which / "entrypoint.py", CONTAINERS / LOCK):
        shutil.copyfile(source, folder / source.name)
    for project in WHEELS[which]:
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "wheels")]
        subprocess.run(build, cwd=ROOT / project, check=True, capture_output=True)
    bill = bill_of_materials(which, dockerfile=(folder / "Dockerfile").read_text(encoding="utf-8"))
    (folder / "sbom.json").write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8", newline="\n")
    return folder


def bill_of_materials(which: str, *, dockerfile: str) -> dict[str, Any]:
    """Return what the image holds beside its base, as CycloneDX: our wheels, pinned packages, and the base's digest.

    https://cyclonedx.org/docs/1.6/json/
    """
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "container", "name": f"trackside-{which}", "version": trackside.__version__}
        },
        "components": [*_base(dockerfile), *_packages((CONTAINERS / LOCK).read_text(encoding="utf-8"))],
    }


def _base(dockerfile: str) -> Iterator[dict[str, Any]]:
    base = list(_BASE.finditer(dockerfile))[-1]
    name, _, tag = base["tag"].partition(":")
    purl = f"pkg:oci/{name}@{base['digest'].replace(':', '%3A')}?tag={tag}"
    yield {"type": "container", "name": name, "version": f"{tag}@{base['digest']}", "purl": purl}


def _packages(lock: str) -> Iterator[dict[str, Any]]:
    yield _package("trackside", trackside.__version__)
    for pinned in _PINNED.finditer(lock):
        if _OLDER_PYTHON not in pinned["marker"]:
            yield _package(pinned["name"], pinned["version"])


def _package(name: str, version: str) -> dict[str, Any]:
    return {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
