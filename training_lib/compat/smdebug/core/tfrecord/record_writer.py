"""Payloads -> the records of a file."""

from __future__ import annotations

import struct

import google_crc32c

from smdebug import not_offered
from smdebug.core.access_layer.file import TSAccessFile
from smdebug.core.utils import is_s3

CHECKSUM_MAGIC_BYTES = b"0x12345678"

_MASK_DELTA = 0xA282EAD8


def u32(x: int) -> int:
    """Return the lower 32 bits."""
    return x & 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C in the form of TFRecord files: rotated by 15 bits, plus a constant."""
    crc = int(google_crc32c.value(bytes(data)))
    return u32((crc >> 15 | crc << 17) + _MASK_DELTA)


class RecordWriter:
    """A file of records, local or on S3, that appears when it is closed.

    Without `write_checksum` all footers are the constant that old readers of tensors require.
    """

    def __init__(self, path: str, write_checksum: bool) -> None:
        self.write_checksum = write_checksum
        on_s3, bucket, key = is_s3(path)
        if on_s3:
            from smdebug.core.access_layer.s3 import TSAccessS3  # needs boto3

            self._writer: TSAccessFile | TSAccessS3 = TSAccessS3(bucket or "", key or "")
        else:
            self._writer = TSAccessFile(path, "wb")

    def write_record(self, event_str: bytes) -> list[int]:
        """Append a record. Return [its position, its length] in bytes."""
        return self._writer.write(framed(event_str, with_checksum=self.write_checksum))

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def framed(payload: bytes, *, with_checksum: bool) -> bytes:
    """Return one record: its length, a check of that, the payload, a footer."""
    length = struct.pack("<Q", len(payload))
    footer = masked_crc32c(payload if with_checksum else CHECKSUM_MAGIC_BYTES)
    return b"".join((length, struct.pack("<I", masked_crc32c(length)), payload, struct.pack("<I", footer)))


__getattr__ = not_offered.attribute_of(__name__)
