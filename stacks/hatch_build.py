"""Build of the wheel `trackside-cdk`: the stacks as the package `trackside_cdk`, with the functions' code as data.

An app of somebody else has modules called `stacks` and `lambdas` of its own, so imports of ours are written anew: a
prefix is put before them. Nothing else differs from the repository.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "trackside_cdk"
ROOT = Path(__file__).resolve().parent.parent
OF_THE_CHECKOUT = {"assembly.py", "hatch_build.py", "permissions.py", "public.py", "push_image.py"}
IMPORT = re.compile(r"(?m)^(\s*(?:from|import)) (stacks|lambdas)\b")
PACKAGE_OF_ACTIONS = 'PACKAGE = "stacks.'  # named in a text: stacks/constructs/action_reaction.py


class StacksAsPackage(BuildHookInterface[Any]):
    """Lays the package out in a temporary folder, and adds it to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Lay out the package. Errors: `PackagesMissingError` if the packages of the functions were not fetched."""
        self._folder = Path(tempfile.mkdtemp(prefix="trackside-cdk-"))
        for target, text in package_files().items():
            path = self._folder / target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        build_data["force_include"] = {str(self._folder): PACKAGE, str(_lambda_code()): f"{PACKAGE}/lambda_code"}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)


def package_files() -> Mapping[str, str]:
    """Return the text of each module of the package, by its path in it, and CDK's feature flags."""
    stacks = [path for path in (ROOT / "stacks").rglob("*.py") if path.name not in OF_THE_CHECKOUT]
    settings = [*(ROOT / "lambdas").rglob("settings.py"), *(ROOT / "lambdas").rglob("__init__.py")]
    found = {str(path.relative_to(ROOT)): with_prefix(path.read_text(encoding="utf-8")) for path in stacks + settings}
    found["__init__.py"] = with_prefix((ROOT / "stacks" / "public.py").read_text(encoding="utf-8"))
    found["cdk.json"] = (ROOT / "cdk.json").read_text(encoding="utf-8")
    found["py.typed"] = ""
    return found


def with_prefix(text: str) -> str:
    """Return the text of a module with `trackside_cdk.` before each import of `stacks` and `lambdas`."""
    text = text.replace(PACKAGE_OF_ACTIONS, f'PACKAGE = "{PACKAGE}.stacks.')
    return IMPORT.sub(rf"\1 {PACKAGE}.\2", text)


def _lambda_code() -> Path:
    sys.path.insert(0, str(ROOT))
    try:
        from stacks.lambda_code import prepare_lambda_code

        return prepare_lambda_code()
    finally:
        sys.path.remove(str(ROOT))
