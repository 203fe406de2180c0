"""What `ctxtop doctor` looks at in the store: that it opens, and what could not be read."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from ...collectors.policy_files import PolicyFiles
from ...collectors.subjects import state_folder
from ...collectors.transcripts.line_types import why_ignored
from ...core import fleet
from ...core.compaction.receipts import Receipts
from ...core.saves.report import read_saves
from ...core.store import log_queries, queries
from ...core.store.database import StoreError, explain, open_reader
from ...core.store.health import NEWER, find_damage
from ...core.store.surroundings_queries import project_roots
from ..formats import plural
from ..places import PlaceError
from ..update import bring_up_to_date, make_again
from .asking_checks import measurement_check, requests_check
from .checks import Check, folder_checks, is_link, machine_checks, noted, well, wrong
from .hook_checks import hook_check
from .log_checks import disk_check, log_checks
from .policy_check import policy_check
from .recovery_checks import recovery_checks
from .report import say, say_all, words
from .surroundings_checks import saves_checks, surroundings_checks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ...core.saves.report import SavesReport
    from ...core.store.log_queries import PartRow
    from ..places import Places

NAMED: Final = 5
"""Types and places that are named; the rest is counted."""


def check_all(places: Places) -> list[Check]:
    """Look at everything, with the store as it is."""
    return list(each_check(places))


def scan_and_check_all(places: Places) -> list[Check]:
    """Bring the store up to date as far as that is possible, then look at everything."""
    failure = None
    try:
        if places.exists:
            say_all(bring_up_to_date(places).notices)
    except (PlaceError, StoreError, OSError, UnicodeEncodeError) as error:
        failure = words(error)
    return list(each_check(places, failure))


def heal_damage(places: Places) -> None:
    """Make a store again that is damaged; what cannot be done is for the checks to tell."""
    if not places.store.is_file():
        return
    try:
        damage = find_damage(places.store)
        if damage and damage != NEWER:
            say(make_again(places, damage))
    except (PlaceError, StoreError, OSError, UnicodeEncodeError) as error:
        say(words(error))


def each_check(places: Places, failure: str | None = None) -> Iterator[Check]:
    """Make one check after the other; `failure` is what the scan before them met."""
    yield from folder_checks(places)
    store, parts = _look_into(places, failure)
    yield from store
    yield disk_check(places.store)
    yield from log_checks(places.store, parts)
    yield requests_check(places.store)
    yield from machine_checks()


def _policies(db: sqlite3.Connection, places: Places) -> PolicyFiles:
    files = PolicyFiles(places.policy)
    files.refresh(project_roots(db))
    return files


def _saves(db: sqlite3.Connection, files: PolicyFiles) -> SavesReport:
    """Judge saves as the policy says; what is wrong with that is told by its own check."""
    return read_saves(db, (), time.time_ns() // 1_000_000, files.policies)


def _recoveries(db: sqlite3.Connection, store: Path) -> list[Check]:
    now_ms = time.time_ns() // 1_000_000
    receipts = Receipts(state_folder(store)).all()
    return recovery_checks(db, fleet.read_sessions(db, now_ms), receipts, now_ms)


def _look_into(places: Places, failure: str | None) -> tuple[list[Check], list[PartRow]]:
    path = places.store
    if failure:
        return [_failed(failure, path)], []
    if not path.exists():
        return [well("store", f"none at {path} yet: the first scan makes it")], []
    try:
        with closing(open_reader(path)) as db:
            about = _about(db, places)
            if about:
                return [about], []
            policies = _policies(db, places)
            found = [
                _store(path, db),
                _bad_lines(db),
                _orphans(db),
                _unknown_types(db),
                _ignored_types(db),
                *surroundings_checks(db),
                measurement_check(db),
                hook_check(db, path),
                *_recoveries(db, path),
                *saves_checks(_saves(db, policies)),
                policy_check(policies),
                _troubles(db),
            ]
            return found, log_queries.parts(db)
    except StoreError as error:
        return [_failed(str(error), path)], []
    except sqlite3.Error as error:
        what, remedy = explain(error)
        return [wrong("store", f"{path}: {what}", remedy)], []


def _about(db: sqlite3.Connection, places: Places) -> Check | None:
    """Find what makes a store that opens useless all the same."""
    path = places.store
    newer = queries.unknown_migrations(db)
    if newer:
        detail = f"{path} was written by a newer ctxtop ({newer[-1]})"
        return wrong("store", detail, "use that one, or another --db: a scan would move it aside")
    root = queries.claimed_root(db)
    if root is not None and root != str(places.folder.root):
        return wrong("store", f"{path} holds the sessions of {root}", "give another --db")
    damage = queries.damage(db)
    if damage:
        return wrong("store", f"{path} is damaged: {damage}", f"move {path} away: it is made again")
    return None


def _failed(message: str, path: Path) -> Check:
    # The store's errors end with what to do.
    detail, _, remedy = message.rpartition("; ")
    if not detail:
        return wrong("store", message, "choose another place with --db")
    if "doctor" in remedy:
        remedy = f"move {path} away: the next start makes it again"
    return wrong("store", detail, remedy)


def _store(path: Path, db: sqlite3.Connection) -> Check:
    mode, around = (stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent))
    size = path.stat().st_size
    counts = queries.counts(db)
    detail = (
        f"{path}, {size:,} bytes, {queries.schema_version(db)}, {mode:04o} in {around:04o},"
        f" {plural(counts['files'], 'file')}, {plural(counts['sessions'], 'session')}"
    )
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)):
        return wrong("store", f"{detail}; it cannot be written", "choose another place with --db")
    if mode & 0o077:
        return wrong("store", detail, f"others can read it: chmod 600 {path}")
    if around & 0o022 and not around & stat.S_ISVTX:
        return wrong("store", detail, f"others can replace it: chmod 700 {path.parent}")
    return well("store", detail)


def _bad_lines(db: sqlite3.Connection) -> Check:
    count = queries.counts(db)["bad_lines"]
    if not count:
        return well("bad lines", "none")
    return noted(
        "bad lines", f"{plural(count, 'line')} set aside", "`ctxtop scan --bad` lists them"
    )


def _orphans(db: sqlite3.Connection) -> Check:
    found = queries.orphans(db)
    if not found:
        return well("orphans", "every agent's file has its session's transcript")
    detail = f"{plural(len(found), 'agent')} whose session has no transcript: {found[0]}"
    return noted("orphans", detail, "remove the files if you have no use for them")


def _unknown_types(db: sqlite3.Connection) -> Check:
    found = queries.unknown_types(db)
    if not found:
        return well("unknown types", "none")
    named = ", ".join(f"{name} {lines:,}" for name, lines in list(found.items())[:NAMED])
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    fix = "nothing is lost; a newer ctxtop may know them"
    return well("unknown types", f"{named}{more}", fix)


def _ignored_types(db: sqlite3.Connection) -> Check:
    found = queries.ignored_types(db)
    if not found:
        return well("ignored types", "none")
    most = list(found.items())[:NAMED]
    named = "; ".join(f"{name} {lines:,}: {why_ignored(name)}" for name, lines in most)
    in_all = plural(sum(found.values()), "line")
    return well("ignored types", f"{in_all} of {plural(len(found), 'known type')}: {named}")


def _troubles(db: sqlite3.Connection) -> Check:
    found = [trouble for trouble in queries.troubles(db) if not is_link(trouble)]
    if not found:
        return well("troubles", "none")
    newest = found[0]
    detail = f"{plural(len(found), 'trouble')}, the newest: {newest.where}: {newest.what}"
    return wrong("troubles", detail, newest.fix)
