"""None of recovery's requirements is left out."""

from __future__ import annotations

import re

from . import test_attempts, test_detection, test_mending, test_truncation
from .given import CANNOT


def test_none_is_left_out() -> None:
    modules = (test_attempts, test_detection, test_mending, test_truncation)
    found = re.findall(r"test_002_(\d+)", " ".join(name for each in modules for name in dir(each)))
    assert sorted([*map(int, found), *CANNOT]) == list(range(37, 104))
