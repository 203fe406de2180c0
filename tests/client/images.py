"""Pictures to send: small, valid, and each its own."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 64, height: int = 64, shade: int = 0) -> bytes:
    """Make a picture in the PNG format."""
    rows = (bytes((x * y + shade) % 256 for x in range(width * 3)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (
        (b"IHDR", head),
        (b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
