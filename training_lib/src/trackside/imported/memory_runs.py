"""Runs in memory: a function that opens stores, for runs that are judged and forgotten."""

from __future__ import annotations

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.storage.subfolder import Subfolder

SCHEME = "memory://"


class MemoryRuns:
    """The stores of runs at `memory://` locations, all in one dictionary.

    Any other location is opened by no one: a rule that compares with another run gets an error.
    """

    def __init__(self) -> None:
        self._objects = MemoryStore()

    def __call__(self, uri: str) -> Store:
        """Return the store at a location.

        Raises:
            ConfigurationError: It is no location in memory.
        """
        place = uri.removeprefix(SCHEME).strip("/")
        if not uri.startswith(SCHEME) or not place:
            raise ConfigurationError([Problem(uri, "is not in memory.", f"Use {SCHEME}name.")], subject="The location")
        return Subfolder(self._objects, place)
