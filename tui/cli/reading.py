"""The store for one command: brought up to date, opened, and held at one commit."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...collectors.collect import Collector
from ...collectors.policy_files import PolicyFiles
from ...core import fleet
from ...core.policy.policy import Origin
from ...core.store import queries, surroundings_queries
from ...core.store.database import open_reader
from ...core.warning_log import read_log
from ..places import PlaceError
from ..update import bring_up_to_date
from .report import RefusedError, say_all
from .start import resolve

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator

    from ...core.agents import Agent
    from ...core.policy.layers import Policies
    from ...core.policy.policy import Policy, PolicyNotice
    from ...core.sessions import Session
    from ...core.warning_log import ContextWarning
    from ..places import Places
    from .options import Options


class Reading(msgspec.Struct, frozen=True):
    """One commit of the store and the moment at which it is looked at."""

    places: Places
    db: sqlite3.Connection
    now_ms: int
    policies: Policies

    def session_id(self, start: str | None) -> str | None:
        """Complete the start of a session's id; raises RefusedError where that is not one."""
        if start is None:
            return None
        wanted = start.encode("utf-8", "replace").decode().lower()
        found = sorted(queries.find_sessions(self.db, wanted))
        if wanted in found:
            return wanted
        if not found and any(each.startswith(wanted) for each in queries.open_sessions(self.db)):
            raise RefusedError(f"the session {wanted!r} is open, but nothing was said in it yet")
        if not found:
            raise RefusedError(f"no session begins with {wanted!r}; `ctxtop sessions` lists them")
        if len(found) > 1:
            raise RefusedError(
                f"{len(found)} sessions begin with {wanted!r}: give more of the id, e.g. {found[0]}"
            )
        return found[0]

    def agent_id(self, session_id: str, start: str | None) -> str | None:
        """Complete the start of the id of a session's agent; raises RefusedError as above."""
        if start is None:
            return None
        wanted = start.encode("utf-8", "replace").decode()
        known = {each.agent_id for each in self.agents(session_id)}
        found = sorted(each for each in known if each.startswith(wanted))
        if wanted in known:
            return wanted
        if not found:
            raise RefusedError(
                f"no agent of session {session_id} begins with {wanted!r};"
                f" `ctxtop agents --session {session_id}` lists them"
            )
        if len(found) > 1:
            raise RefusedError(
                f"{len(found)} agents begin with {wanted!r}: give more of the id, e.g. {found[0]}"
            )
        return found[0]

    def sessions(self, only: str | None = None) -> list[Session]:
        """Every session, or the one named, newest activity first."""
        found = fleet.read_sessions(self.db, self.now_ms, _one(only), self.policies)
        return sorted(found, key=fleet.by_newest)

    def stream_sessions(self) -> Iterator[list[Session]]:
        """Every session, a part at a time, newest activity first."""
        return fleet.stream_sessions(self.db, self.now_ms, None, self.policies)

    def agents(self, only: str | None = None) -> list[Agent]:
        """The agents of every session, or of the one named, newest activity first."""
        found = fleet.read_agents(self.db, self.sessions(only), _one(only), self.policies)
        return sorted(found, key=fleet.agent_by_newest)

    def warnings(self, only: str | None = None) -> list[ContextWarning]:
        """The warnings of every session and agent, or of one session's, newest first."""
        found = read_log(self.db, only)
        return sorted(found, key=lambda each: (each.warning.at or 0, each.log_id), reverse=True)


@contextmanager
def open_reading(
    options: Options, scan_method: Callable[[Collector], object] = Collector.scan
) -> Iterator[Reading]:
    """Bring the store up to date unless told not to, and hold one commit of it.

    Raises RefusedError, PlaceError or StoreError where there is nothing to read.
    """
    places = resolve(options.config_dir, options.db, options.policy)
    if options.no_scan:
        if not places.store.exists():
            raise RefusedError(f"no store at {places.store} yet: run it without --no-scan")
    else:
        scan(places, scan_method)
    with closing(open_reader(places.store)) as db:
        db.execute("BEGIN")
        root = queries.claimed_root(db)
        if root is not None and root != str(places.folder.root):
            raise PlaceError(
                f"the store {places.store} holds the sessions of {root}: give another --db"
            )
        files = _policy_files(places, options, surroundings_queries.project_roots(db))
        yield Reading(places, db, time.time_ns() // 1_000_000, files.policies)


def scan(places: Places, scan_method: Callable[[Collector], object] = Collector.scan) -> None:
    """Bring the store up to date and tell what it met."""
    outcome = bring_up_to_date(places, scan_method)
    say_all(outcome.notices)
    say_all(outcome.problems)


def policy_of(options: Options, session: str | None) -> tuple[Policy, tuple[PolicyNotice, ...]]:
    """Resolve the policy of a session's folder, or of the one that the command runs in.

    Raises RefusedError, PlaceError or StoreError where the session cannot be looked up.
    """
    if session is None:
        folder: str | None = str(Path.cwd())
    else:
        with open_reading(options) as found:
            folder = found.sessions(found.session_id(session))[0].project_root
    places = resolve(options.config_dir, options.db, options.policy)
    files = PolicyFiles(places.policy)
    files.refresh([folder] if folder else [])
    return files.policies.for_project(folder), files.notices


def _policy_files(places: Places, options: Options, folders: Iterable[str]) -> PolicyFiles:
    """Read the policies; what the scan has not told of is told here."""
    files = PolicyFiles(places.policy)
    files.refresh(folders)
    say_all(
        notice
        for notice in files.notices
        if options.no_scan or notice.origin is Origin.COMMAND_LINE
    )
    return files


def _one(session_id: str | None) -> list[str] | None:
    return None if session_id is None else [session_id]
