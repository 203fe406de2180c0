"""A store that a command could not read: it is moved aside and made again, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.store.database import StoreError, is_from_damage
from ..update import make_again
from .report import RefusedError
from .start import resolve

if TYPE_CHECKING:
    from .options import Options


def heal(options: Options, error: Exception) -> str | None:
    """Make the store again where an error comes of its damage; None where it does not.

    The text says what was done. Raises as `make_again` does.
    """
    if isinstance(error, (OSError, RefusedError)):
        return None
    places = resolve(options.config_dir, options.db, options.policy)
    cause = error.__cause__ if isinstance(error, StoreError) else error
    if not (places.store.is_file() and cause and is_from_damage(cause, places.store)):
        return None
    return make_again(places, " ".join(str(cause).split()))
