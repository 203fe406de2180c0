"""The store for one command: brought up to date, rebuilt where damaged, held at one commit."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...collectors.claude_code.collector_thread import Collector
from ...collectors.places import PlaceError, Places
from ...collectors.policy_files import PolicyFiles
from ...collectors.store_update import rebuild_store, update_store
from ...core.model.agent import Agent
from ...core.model.session import Session
from ...core.policy.policy import Policy, PolicyNotice, PolicyOrigin
from ...core.policy.resolve import Policies
from ...core.store.database import StoreError, is_caused_by_corruption, open_reader
from ...core.store.queries import config_queries, session_queries
from ...core.store.readers import fleet_reader
from ...core.store.warning_log import ContextWarning, read_warnings
from .command_errors import RefusedError, print_errors
from .start import resolve_places

if TYPE_CHECKING:
    from .command_options import CommandOptions


def rebuild_if_damaged(options: CommandOptions, error: Exception) -> str | None:
    """Make the store again where an error comes of its damage; None where it does not.

    The text says what was done. Raises as `rebuild_store` does.
    """
    if isinstance(error, (OSError, RefusedError)):
        return None
    places = resolve_places(options.config_dir, options.db, options.policy)
    cause = error.__cause__ if isinstance(error, StoreError) else error
    if not (places.store.is_file() and cause and is_caused_by_corruption(cause, places.store)):
        return None
    return rebuild_store(places, " ".join(str(cause).split()))


class StoreSnapshot(msgspec.Struct, frozen=True):
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
        found = sorted(session_queries.find_sessions(self.db, wanted))
        if wanted in found:
            return wanted
        if not found and any(
            each.startswith(wanted) for each in session_queries.open_sessions(self.db)
        ):
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
        found = fleet_reader.read_sessions(self.db, self.now_ms, _only(only), self.policies)
        return sorted(found, key=fleet_reader.newest_session_order)

    def stream_sessions(self) -> Iterator[list[Session]]:
        """Every session, a part at a time, newest activity first."""
        return fleet_reader.stream_sessions(self.db, self.now_ms, None, self.policies)

    def agents(self, only: str | None = None) -> list[Agent]:
        """The agents of every session, or of the one named, newest activity first."""
        found = fleet_reader.read_agents(self.db, self.sessions(only), _only(only), self.policies)
        return sorted(found, key=fleet_reader.newest_agent_order)

    def warnings(self, only: str | None = None) -> list[ContextWarning]:
        """The warnings of every session and agent, or of one session's, newest first."""
        found = read_warnings(self.db, only)
        return sorted(found, key=lambda each: (each.warning.at or 0, each.log_id), reverse=True)


@contextmanager
def open_snapshot(
    options: CommandOptions, scan_method: Callable[[Collector], object] = Collector.scan
) -> Iterator[StoreSnapshot]:
    """Bring the store up to date unless told not to, and hold one commit of it.

    Raises RefusedError, PlaceError or StoreError where there is nothing to read.
    """
    places = resolve_places(options.config_dir, options.db, options.policy)
    if options.no_scan:
        if not places.store.exists():
            raise RefusedError(f"no store at {places.store} yet: run it without --no-scan")
    else:
        update_and_report(places, scan_method)
    with closing(open_reader(places.store)) as db:
        db.execute("BEGIN")
        root = session_queries.claimed_folder(db)
        if root is not None and root != str(places.folder.root):
            raise PlaceError(
                f"the store {places.store} holds the sessions of {root}: give another --db"
            )
        files = _policy_files(places, options, config_queries.project_roots(db))
        yield StoreSnapshot(places, db, time.time_ns() // 1_000_000, files.policies)


def update_and_report(
    places: Places, scan_method: Callable[[Collector], object] = Collector.scan
) -> None:
    """Bring the store up to date and tell what it met."""
    outcome = update_store(places, scan_method)
    print_errors(outcome.notices)
    print_errors(outcome.problems)


def read_policy(
    options: CommandOptions, session: str | None
) -> tuple[Policy, tuple[PolicyNotice, ...]]:
    """Resolve the policy of a session's folder, or of the one that the command runs in.

    Raises RefusedError, PlaceError or StoreError where the session cannot be looked up.
    """
    if session is None:
        folder: str | None = str(Path.cwd())
    else:
        with open_snapshot(options) as found:
            folder = found.sessions(found.session_id(session))[0].project_root
    places = resolve_places(options.config_dir, options.db, options.policy)
    files = PolicyFiles(places.policy)
    files.refresh([folder] if folder else [])
    return files.policies.for_project(folder), files.notices


def _policy_files(places: Places, options: CommandOptions, folders: Iterable[str]) -> PolicyFiles:
    """Read the policies; what the scan has not told of is told here."""
    files = PolicyFiles(places.policy)
    files.refresh(folders)
    print_errors(
        notice
        for notice in files.notices
        if options.no_scan or notice.origin is PolicyOrigin.COMMAND_LINE
    )
    return files


def _only(session_id: str | None) -> list[str] | None:
    return None if session_id is None else [session_id]
