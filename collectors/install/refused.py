"""What the installer does not do, and why."""

from __future__ import annotations


class NotSafeError(Exception):
    """Settings that are left alone; the message says what, where and what to do."""


class ChangedError(NotSafeError):
    """Something else was written since the plan was made: a new plan may do."""
