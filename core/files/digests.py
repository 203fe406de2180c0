"""Hashes of short texts. `hashlib` loads OpenSSL, which takes longer than to read the store."""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from hashlib import blake2b, sha256
else:
    try:
        from _blake2 import blake2b

        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:  # not CPython
        from hashlib import blake2b, sha256

__all__ = ["blake2b", "sha256"]
