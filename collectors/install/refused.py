"""What the installer does not do, and why."""

from __future__ import annotations


class NotSafeError(Exception):
    """Settings that are left alone; the message says what, where and what to do."""
