"""Installing the plugin from the dashboard: the same plan that `ctxtop hooks install` makes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..collectors.install.plan import Plan
    from .places import Places

NOTHING_TO_DO = "the plugin is installed already: `ctxtop hooks status` tells how it does"


@dataclass(frozen=True, slots=True)
class Offer:
    """What would be written, for a person to agree to."""

    plan: Plan
    summary: str
    diff: tuple[str, ...]


def offer_install(places: Places) -> Offer | str:
    """Plan it for the user's own settings, without answers by hooks; a sentence if not possible.

    Raises OSError.
    """
    from ..collectors.install.difference import difference
    from ..collectors.install.places import SettingsScope, place_of
    from ..collectors.install.plan import plan_install
    from ..collectors.install.refused import NotSafeError
    from ..collectors.install.wanted import Wanted
    from .cli.hooks_lines import plan_words

    place = place_of(SettingsScope.USER, places.config_dir, Path.cwd())
    wanted = Wanted(store=places.store, features=(), as_plugin=True, status_line=True)
    try:
        plan = plan_install(place, places.config_dir, wanted)
    except NotSafeError as error:
        return str(error)
    if plan.changes_nothing:
        return NOTHING_TO_DO
    notes = "".join(f"\n{note}" for note in plan.notes)
    return Offer(plan, plan_words(plan) + notes, tuple(difference(plan)))


def install(offer: Offer, places: Places) -> str:
    """Write it, and say where the settings of before are kept; raises OSError.

    Where it is not safe any more, that is said instead.
    """
    from ..collectors.install.carry_out import carry_out
    from ..collectors.install.refused import NotSafeError

    try:
        backup = carry_out(offer.plan, places.store)
    except NotSafeError as error:
        return f"nothing was written: {error}"
    return f"backup {backup}" if backup else "there were no settings before"
