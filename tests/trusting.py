"""The client's own record of the folders that a person trusts, as 2.1.329 keeps it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def accept_trust_dialog(state: Path, *folders: Path) -> None:
    """Write that the trust dialog was accepted in these folders, and in no other.

    What else the client keeps in the file stays.
    """
    before = json.loads(state.read_text(encoding="utf-8")) if state.exists() else {}
    accepted = {"hasTrustDialogAccepted": True, "allowedTools": []}
    projects = {str(folder.resolve()): accepted for folder in folders}
    state.parent.mkdir(parents=True, exist_ok=True)
    kept = {"numStartups": 3} | before | {"projects": projects}
    state.write_text(json.dumps(kept), encoding="utf-8")
