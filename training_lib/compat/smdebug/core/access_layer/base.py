"""What a file on disk and an object on S3 have in common."""

from __future__ import annotations

from typing import Any

from smdebug import not_offered
from smdebug.exceptions import SMDebugError, SMDebugNotImplementedError


class TSAccessBase:
    """Something to write, or to read, from its beginning to its end."""

    def write(self, _bytes: Any) -> Any:
        raise SMDebugNotImplementedError("Nothing can be written here.")

    def flush(self) -> None:
        """Nothing is seen by others before `close`."""

    def close(self) -> None:
        """Whole or not at all: this is when others see it."""

    def has_data(self) -> bool:
        """True if `read` has not come to the end."""
        return self._whole().position < len(self._whole().data)

    def read(self, n: int) -> Any:
        """The next `n` bytes. Errors: `SMDebugError` if there are less."""
        whole = self._whole()
        if whole.position + n > len(whole.data):
            raise SMDebugError("File position out of bounds")
        whole.position += n
        return whole.data[whole.position - n : whole.position]

    def ingest_all(self) -> None:
        """Reads everything, once."""
        self._whole()

    def _whole(self) -> Content:
        if not hasattr(self, "_content"):
            self._content = Content(self._fetch())
        return self._content

    def _fetch(self) -> Any:
        raise SMDebugNotImplementedError("Nothing can be read here.")


class Content:
    """What was read, and how far the caller has come."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.position = 0


__getattr__ = not_offered.attribute_of(__name__)
