"""PNG images of few colours."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PALETTE_IMAGE = 3


def png(places: NDArray[np.uint8], colors: NDArray[np.uint8]) -> bytes:
    """Return an image.

    Args:
        places: The place of each pixel's color, of shape (height, width), neither of them 0.
        colors: Red, green, blue and opacity, of shape (n, 4), n <= 256.
    """
    height, width = places.shape
    rows = np.zeros((height, width + 1), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = places
    header = struct.pack(">IIBBBBB", width, height, 8, _PALETTE_IMAGE, 0, 0, 0)
    chunks = (
        (b"IHDR", header),
        (b"PLTE", colors[:, :3].tobytes()),
        (b"tRNS", colors[:, 3].tobytes()),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    return _SIGNATURE + b"".join(_chunk(name, content) for name, content in chunks)


def data_address(image: bytes) -> str:
    """Return the image as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(image).decode('ascii')}"


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
