"""Archives of runs that tests keep."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack_archive(archive: Path, folder: Path) -> None:
    """Unpack an archive of ours, on any Python that is promised: filters came with 3.10.12 and 3.11.4."""
    with tarfile.open(archive) as opened:
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(folder)  # noqa: S202 - ours
