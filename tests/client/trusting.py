"""Trusting the policy file of a lab's project, by the command that a person types."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from .lab import Lab


def trust(lab: Lab, folder: Path | None = None) -> None:
    """Trust a folder's .ctxtop.toml, the project's where no other is named."""
    argv = [sys.executable, "-P", "-m", "ctxtop", "trust", str(folder or lab.project), "--yes"]
    ended = lab.namespace.run(argv, lab.root, lab.env, 60.0)
    assert ended.code == 0, ended.err
