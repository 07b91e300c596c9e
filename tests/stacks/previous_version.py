"""The deployment as the last landed version made it: from which an upgrade must lose nothing.

    python tests/stacks/previous_version.py CLOUD_ASSEMBLY COMMIT

keeps a cloud assembly (`cdk.out`) of that commit in tests/stacks/previous/; to be done once, after each release. Its
templates are kept, and not the code of its functions: `lay_out` puts today's in its place, so that it can be deployed.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KEPT = Path(__file__).resolve().parent / "previous"
COMMIT = "commit.txt"


def keep(assembly: Path, commit: str) -> None:
    """Keeps what CloudFormation is told, and nothing that is only for people."""
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir()
    manifest = json.loads((assembly / "manifest.json").read_text())
    manifest["artifacts"] = {
        name: {key: value for key, value in artifact.items() if key != "metadata"}
        for name, artifact in manifest["artifacts"].items()
        if artifact["type"] in ("aws:cloudformation:stack", "cdk:asset-manifest")
    }
    for artifact in manifest["artifacts"].values():
        artifact.pop("additionalMetadataFile", None)
        artifact.pop("displayName", None)
    _write("manifest.json", manifest)
    for pattern in ("*.template.json", "*.assets.json"):
        for path in sorted(assembly.glob(pattern)):
            _write(path.name, json.loads(path.read_text()))
    (KEPT / COMMIT).write_text(f"{commit}\n")


def lay_out(folder: Path, *, today: Path) -> Path:
    """The previous version as a cloud assembly in `folder`, with the code of `today`'s, which is its layer, too."""
    shutil.copytree(KEPT, folder)
    code = next(path for path in today.glob("asset.*") if (path / "lambdas").is_dir())
    for stack in folder.glob("*.assets.json"):
        for asset in json.loads(stack.read_text())["files"].values():
            place = folder / asset["source"]["path"]
            if asset["source"]["packaging"] == "zip" and not place.exists():
                place.symlink_to(code)
    return folder


def read_templates(folder: Path = KEPT) -> dict[str, Mapping[str, Any]]:
    """Stack -> template."""
    return {
        path.name.removesuffix(".template.json"): json.loads(path.read_text())
        for path in sorted(folder.glob("*.template.json"))
    }


def _write(name: str, content: Mapping[str, Any]) -> None:
    (KEPT / name).write_text(json.dumps(content, separators=(",", ":"), sort_keys=True) + "\n")


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2])
