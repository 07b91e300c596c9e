"""The place at an address: a folder, or a prefix in S3."""

from __future__ import annotations

from trackside.exchange.places import FolderPlace, Place
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store


def open_place(uri: str) -> Place:
    """Return the place at a folder or `s3://` prefix. Raises the errors of `open_store`."""
    store = open_store(uri)
    if isinstance(store, LocalStore):
        return FolderPlace(store.uri)
    from trackside.exchange.bucket_place import BucketPlace  # boto3 is an extra, and slow to import

    return BucketPlace.at(uri)
