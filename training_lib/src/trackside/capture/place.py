"""The place that a hook or a run of the script writes to."""

from __future__ import annotations

from dataclasses import dataclass

from trackside.contracts.run_layout import RunLocation
from trackside.storage.open_store import open_store
from trackside.storage.store import Store


@dataclass(frozen=True)
class Place:
    """The place that a hook writes to: a run, or only a folder of tensors; neither for memory alone.

    Both are a folder or `s3://bucket/prefix`.
    """

    run: str = ""
    tensors: str = ""

    @property
    def is_memory_only(self) -> bool:
        """True if nothing is written."""
        return not self.run and not self.tensors

    def location(self) -> RunLocation:
        """Return the run. A bare folder of tensors counts as a run of that name; see `open`."""
        return RunLocation(self.run or self.tensors.removesuffix("/debug-output") or ".")

    @property
    def is_bare(self) -> bool:
        """True if the place holds only tensors, so that statistics have no place in it."""
        return bool(self.tensors) and not self.tensors.rstrip("/").endswith("/debug-output")

    def open(self, uri: str) -> Store:
        """Open the store of an address within the run that `location` names."""
        return open_store(uri.removesuffix("/debug-output") if self.is_bare else uri)
