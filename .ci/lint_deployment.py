"""Lint the CloudFormation templates of each flavour of deployment with cfn-lint, and the Dockerfiles with hadolint.

The templates are those that tests share (`stacks.assembly`), so only
the first run after a change takes its time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from docs.permissions import LARGEST  # noqa: E402
from stacks.assembly import assembly  # noqa: E402
from tests.stacks.variants import HUB_OF_STAGING, SPOKE_OF_STAGING  # noqa: E402

FLAVOURS: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "all parts, with a fleet": LARGEST,
    "a hub in a landing zone": HUB_OF_STAGING,
    "a spoke": SPOKE_OF_STAGING,
}
# W3005: CDK writes a DependsOn also where a reference makes the order.
PASSED_OVER = ("W3005",)
LINTED = "linted.txt"
# DL3013: what is installed is our own wheel, built for this image.
PASSED_OVER_IN_IMAGES = ("DL3013",)


def lint_dockerfiles() -> str:
    """Return the findings in the Dockerfiles; "" for none, or where hadolint has no wheel."""
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.is_file():
        sys.stdout.write("hadolint: not installed on this kind of machine\n")
        return ""
    files = [str(path) for path in sorted((ROOT / "rule_containers").glob("*/Dockerfile"))]
    command = [str(hadolint), "--no-color", *(f"--ignore={each}" for each in PASSED_OVER_IN_IMAGES), *files]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    return outcome.stdout + outcome.stderr if outcome.returncode else ""


def lint(context: Mapping[str, str]) -> str:
    """Return the findings in the templates of one deployment; "" for none."""
    folder = assembly(context)
    if (folder / LINTED).is_file():
        return ""
    templates = [str(path) for path in sorted(folder.glob("*.template.json"))]
    command = [
        str(Path(sys.executable).with_name("cfn-lint")),
        "--format",
        "parseable",
        "--ignore-checks",
        *PASSED_OVER,
    ]
    outcome = subprocess.run([*command, "--template", *templates], capture_output=True, text=True, check=False)
    if outcome.returncode == 0:
        (folder / LINTED).write_text("")
    return outcome.stdout + outcome.stderr if outcome.returncode else ""


def main() -> None:
    found = {name: findings for name, context in FLAVOURS.items() if (findings := lint(context))}
    if in_images := lint_dockerfiles():
        found["Dockerfiles"] = in_images
    for name, findings in found.items():
        sys.stdout.write(f"{name}:\n{findings}\n")
    if found:
        sys.exit(1)
    sys.stdout.write(f"cfn-lint: no finding in {len(FLAVOURS)} deployments; hadolint: none\n")


if __name__ == "__main__":
    main()
