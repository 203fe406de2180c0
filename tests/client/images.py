"""Pictures to send: small, valid, and each its own."""

from __future__ import annotations

import random
import struct
import zlib


def png(width: int = 64, height: int = 64, shade: int = 0) -> bytes:
    """Make a picture in the PNG format."""
    return _png(
        width,
        height,
        [bytes((x * y + shade) % 256 for x in range(width * 3)) for y in range(height)],
    )


def noise(number: int, width: int = 64, height: int = 64) -> bytes:
    """Make a picture that cannot be packed: many bytes, the same for the same number."""
    chosen = random.Random(number)
    return _png(width, height, [chosen.randbytes(width * 3) for _ in range(height)])


def _png(width: int, height: int, rows: list[bytes]) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (
        (b"IHDR", head),
        (b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
