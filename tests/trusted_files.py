"""Trusting a project's policy file, by what `ctxtop trust` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.collectors.locations import places
from ctxtop.collectors.locations.policy_files import (
    PROJECT_POLICY_NAME,
    TrustFile,
    content_sha256,
    read_project_policy,
)

if TYPE_CHECKING:
    from pathlib import Path


def trust(folder: Path, trust_file: Path | None = None) -> None:
    """Trust a folder's file as it is now; in the person's own list where no other is named."""
    content = read_project_policy(folder / PROJECT_POLICY_NAME)
    TrustFile(trust_file or places.trust_file_path()).trust(str(folder), content_sha256(content))


def write_trusted(folder: Path, text: str, trust_file: Path | None = None) -> None:
    """Write a folder's policy file, and trust it."""
    (folder / PROJECT_POLICY_NAME).write_text(text, encoding="utf-8")
    trust(folder, trust_file)
