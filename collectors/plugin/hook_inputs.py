"""The policy that holds for a hook's answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..locations.places import PolicySources, trust_file_path, user_policy_path
from ..locations.policy_files import read_acting_policy
from .hook_answer import find_hook_project

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...core.policy.policy import Policy


def resolve_hook_policy(fields: Mapping[str, Any]) -> Policy:
    """Resolve the policy for a hook's fields; its environment is the client's own."""
    sources = PolicySources((), dict(os.environ), user_policy_path(), trust_file_path())
    return read_acting_policy(sources, find_hook_project(fields))
