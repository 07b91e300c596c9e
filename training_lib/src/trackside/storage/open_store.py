"""Open the store of a location."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.storage.local import LocalStore
from trackside.storage.store import Store

OpenStore = Callable[[str], Store]  # from a path or an s3:// URI to its store

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<rest>.*)", re.DOTALL)


def open_store(uri: str) -> Store:
    """Return the store of a location. It reads and creates nothing yet.

    Args:
        uri: `s3://bucket/prefix`, or a local folder (`~` is expanded).

    Raises:
        ConfigurationError: The location is empty, has another scheme or no bucket, or an extra is missing.
    """
    if not uri.strip():
        raise _refused(uri, "is empty.")
    match = _SCHEME.fullmatch(uri.strip())
    if match is None:
        return LocalStore(os.path.expanduser(uri))
    if match["scheme"].lower() != "s3":
        raise _refused(uri, f"has the scheme {match['scheme']!r}, which is not known.")
    bucket, _, prefix = match["rest"].partition("/")
    if not bucket:
        raise _refused(uri, "names no bucket.")
    from trackside.storage.s3 import S3Store  # botocore comes with an extra

    return S3Store(bucket, prefix)


def _refused(uri: str, what: str) -> ConfigurationError:
    problem = Problem(where=repr(uri), what=what, fix="Use a folder or s3://bucket/prefix.")
    return ConfigurationError([problem], subject="The location")
