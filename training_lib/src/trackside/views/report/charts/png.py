"""PNG images, of few colors or of any."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_TRUE_COLOR, _PALETTE = 2, 3


def png(places: NDArray[np.uint8], colors: NDArray[np.uint8]) -> bytes:
    """Return an image.

    Args:
        places: The place of each pixel's color, of shape (height, width), neither of them 0.
        colors: Red, green, blue and opacity, of shape (n, 4), n <= 256.
    """
    height, width = places.shape
    palette = (b"PLTE", colors[:, :3].tobytes()), (b"tRNS", colors[:, 3].tobytes())
    return _image(places, (width, height), _PALETTE, palette)


def true_color_png(pixels: NDArray[np.uint8]) -> bytes:
    """Return an image.

    Args:
        pixels: Red, green and blue, of shape (height, width, 3).
    """
    height, width, _ = pixels.shape
    return _image(pixels.reshape(height, 3 * width), (width, height), _TRUE_COLOR, ())


def data_address(image: bytes) -> str:
    """Return the image as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(image).decode('ascii')}"


def _image(
    lines: NDArray[np.uint8], size: tuple[int, int], kind: int, about_colors: Sequence[tuple[bytes, bytes]]
) -> bytes:
    rows = np.zeros((lines.shape[0], lines.shape[1] + 1), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = lines
    header = struct.pack(">IIBBBBB", *size, 8, kind, 0, 0, 0)
    pixels = zlib.compress(rows.tobytes(), 9)
    chunks = ((b"IHDR", header), *about_colors, (b"IDAT", pixels), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(name, content) for name, content in chunks)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
