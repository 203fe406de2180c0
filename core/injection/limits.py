"""What the policy says of injection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .past import Limits

if TYPE_CHECKING:
    from ..policy.policy import Policy

MODULE: Final = "injection"
"""By which `disabled_modules` switches it off."""


def limits_of(policy: Policy) -> Limits | None:
    """Read the limits (requirements 2.2); None where the policy switches injection off."""
    if MODULE in policy.texts("disabled_modules"):
        return None

    def whole(name: str) -> int:
        return policy.integer(f"injection.{name}") or 0

    return Limits(
        sibling=whole("sibling"),
        same_type=whole("same_type"),
        all_projects=policy.text("injection.same_type_scope") == "all",
        cross_session=whole("cross_session"),
        tagged=whole("tagged"),
        fallback=whole("fallback"),
        task_description_chars=whole("task_desc"),
        plan_chars=whole("plan"),
        budget=whole("budget"),
    )
