"""What the policy says of saves: how long each file counts, and which places are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..store.surroundings_facts import Generation

if TYPE_CHECKING:
    from ..policy.policy import Policy

_PLACES: Final = {
    "all": frozenset(Generation),
    "project": frozenset({Generation.PROJECT}),
    "user": frozenset({Generation.GLOBAL, Generation.CACHE}),
    "temporary": frozenset(Generation) - {Generation.PROJECT, Generation.GLOBAL, Generation.CACHE},
}


class Limits(msgspec.Struct, frozen=True):
    """The values of `saveflow.*`; seconds (004-52, 004-63, R004-03)."""

    orphan_after_s: int = 300
    fresh_for_s: int = 86_400
    sentinel_ttl_s: int = 1800
    locations: frozenset[Generation] = _PLACES["all"]


def limits_of(policy: Policy) -> Limits:
    """Take a project's values out of its policy."""
    return Limits(
        orphan_after_s=policy.integer("saveflow.orphan_after_s") or 0,
        fresh_for_s=policy.integer("saveflow.fresh_for_s") or 0,
        sentinel_ttl_s=policy.integer("saveflow.sentinel_ttl_s") or 0,
        locations=_PLACES[policy.text("saveflow.locations")],
    )
