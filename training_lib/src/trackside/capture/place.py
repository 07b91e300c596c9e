"""The place that a hook or a run of the script writes to."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trackside.capture.ground.guard import Guard
from trackside.capture.request_reading import with_request_of_run
from trackside.capture.session import SessionOptions
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.run_layout import RunLocation
from trackside.environment import CaptureEnvironment
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


def settled(
    place: Place, request: CaptureRequest, environment: CaptureEnvironment, options: SessionOptions, *, guard: Guard
) -> tuple[CaptureEnvironment, SessionOptions]:
    """Return the environment and the options of a session that captures by a script's hook.

    The run of the environment, if it names one, holds; the request is the hook's in any case.

    Args:
        place: The place that the hook names.
        request: The hook's request.
        environment: The process's environment.
        options: The hook's options.
        guard: Logs the place once, if it is another one.
    """
    if environment.run_uri:
        request = with_request_of_run(request, environment.capture_request)
        message = "the run lies in %s (TRACKSIDE_RUN), with the request of the hook in the script%s."
        unused = place.run or place.tensors
        not_used = f"; nothing is written to {unused}" if unused else ""
        guard.warn_once("place", message, environment.run_uri, not_used)
        place = Place(run=environment.run_uri)
    elif place.is_memory_only or place.is_bare:
        request = replace(request, statistics=replace(request.statistics, enabled=False))
    options = replace(
        options,
        open_store=place.open,
        has_watermarks=not (place.is_memory_only or place.is_bare),
        is_kept_only=place.is_memory_only,
    )
    return replace(environment, run_uri=place.location().uri, capture_request=request.to_json()), options
