"""Ties a companion wheel to the `trackside` of the same version: one repository, one version."""

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class SameVersion(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        metadata["dependencies"] = [f"trackside=={metadata['version']}", *self.config.get("dependencies", [])]
