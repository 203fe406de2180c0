"""Where the policy of one run comes from, beside the projects' own files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class PolicySources(msgspec.Struct, frozen=True):
    """The places of one run beside the projects' own files."""

    command_line: tuple[tuple[str, str], ...] = ()
    """Keys and values, in the order in which they stood."""
    environ: Mapping[str, str] = {}
    user_file: Path | None = None
    trust_file: Path | None = None
    """What the person trusts; None trusts no project."""
