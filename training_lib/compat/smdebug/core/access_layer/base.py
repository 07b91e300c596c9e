"""The common base of a file on disk and an object on S3."""

from __future__ import annotations

from typing import Any

from smdebug import not_offered
from smdebug.exceptions import SMDebugError, SMDebugNotImplementedError


class TSAccessBase:
    """A file or object to write, or to read from its beginning to its end."""

    def write(self, _bytes: Any) -> Any:
        raise SMDebugNotImplementedError("Nothing can be written here.")

    def flush(self) -> None:
        """Do nothing: others see the content after `close`."""

    def close(self) -> None:
        """Make the content visible to others, whole or not at all."""

    def has_data(self) -> bool:
        """Return True if `read` has not reached the end."""
        return self._whole().position < len(self._whole().data)

    def read(self, n: int) -> Any:
        """Return the next `n` bytes.

        Raises:
            SMDebugError: Fewer are left.
        """
        whole = self._whole()
        if whole.position + n > len(whole.data):
            raise SMDebugError("File position out of bounds")
        whole.position += n
        return whole.data[whole.position - n : whole.position]

    def ingest_all(self) -> None:
        """Read everything, once."""
        self._whole()

    def _whole(self) -> Content:
        if not hasattr(self, "_content"):
            self._content = Content(self._fetch())
        return self._content

    def _fetch(self) -> Any:
        raise SMDebugNotImplementedError("Nothing can be read here.")


class Content:
    """The whole content, and the caller's position in it."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.position = 0


__getattr__ = not_offered.attribute_of(__name__)
