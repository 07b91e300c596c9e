from __future__ import annotations

import struct
import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trackside.views.report.charts.png import png

COLORS = np.array([[0, 0, 0, 0], [255, 0, 128, 255], [1, 2, 3, 255]], np.uint8)


@given(height=st.integers(1, 20), width=st.integers(1, 40), seed=st.integers(0, 9))
def test_the_pixels_come_back(height: int, width: int, seed: int) -> None:
    """Read by the format's own description: length, name, content, CRC-32 of name and content."""
    places = np.random.default_rng(seed).integers(0, 3, (height, width)).astype(np.uint8)
    image = png(places, COLORS)
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(image):
        (length,) = struct.unpack(">I", image[at : at + 4])
        name, content = image[at + 4 : at + 8], image[at + 8 : at + 8 + length]
        assert struct.unpack(">I", image[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + content)
        chunks[name] = content
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"]
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (width, height)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    assert np.array_equal(rows[:, 1:], places)
    assert chunks[b"PLTE"] == COLORS[:, :3].tobytes()
    assert chunks[b"tRNS"] == COLORS[:, 3].tobytes()
