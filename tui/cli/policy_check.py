"""What `ctxtop doctor` says of projects' policy files, and whether they are trusted."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ...core.policy.trust import Trust
from ..formats import plural
from ..trust_words import names
from .checks import Check, well

if TYPE_CHECKING:
    from ...collectors.policy_files import PolicyFiles

NAME = "project policies"


def policy_check(files: PolicyFiles) -> Check:
    """Count the files, and name those of which something is ignored."""
    projects = files.policies.projects
    ignored = sorted(name for name, each in projects.items() if each.ignored)
    trusted = sum(each.trust is Trust.TRUSTED for each in projects.values())
    detail = f"{plural(len(projects), 'file')}, {trusted} trusted"
    if not ignored:
        return well(NAME, detail)
    fix = f"`ctxtop trust {shlex.quote(ignored[0])}` shows what it would do, and asks"
    return well(NAME, f"{detail}; values are ignored from {names(ignored)}", fix)
