"""Trusting a project's policy file, by what `ctxtop trust` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.collectors import user_file
from ctxtop.collectors.policy_files import PROJECT_FILE, read_project_file
from ctxtop.collectors.trust_file import TrustFile, digest

if TYPE_CHECKING:
    from pathlib import Path


def trust(folder: Path, trust_file: Path | None = None) -> None:
    """Trust a folder's file as it is now; in the person's own list where no other is named."""
    content = read_project_file(folder / PROJECT_FILE)
    TrustFile(trust_file or user_file.trust_file()).trust(str(folder), digest(content))


def write_trusted(folder: Path, text: str, trust_file: Path | None = None) -> None:
    """Write a folder's policy file, and trust it."""
    (folder / PROJECT_FILE).write_text(text, encoding="utf-8")
    trust(folder, trust_file)
