"""The client's own record of the folders that a person trusts, as 2.1.329 keeps it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def trust(state: Path, *folders: Path) -> None:
    """Write that the trust dialog was accepted in these folders, and in no other."""
    accepted = {"hasTrustDialogAccepted": True, "allowedTools": []}
    projects = {str(folder.resolve()): accepted for folder in folders}
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text(json.dumps({"numStartups": 3, "projects": projects}), encoding="utf-8")
