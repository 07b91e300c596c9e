"""Ships `trackside.pth` at the top of site-packages, in wheels and in editable installs alike."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PTH = Path(__file__).parent / "trackside.pth"


class StartUpFile(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        included = "force_include_editable" if version == "editable" else "force_include"
        build_data[included][str(PTH)] = "trackside.pth"
