"""The store for one command: brought up to date, rebuilt where damaged, held at one commit."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from ...collectors.collector_thread import Collector
from ...collectors.locations.places import PlaceError, Places
from ...collectors.locations.policy_files import PolicyFiles
from ...collectors.store_update import rebuild_store, save_faults, update_store
from ...core.measure.limit_use import PercentSize
from ...core.model.agent import Agent, newest_agent_order
from ...core.model.problem import Problem
from ...core.model.session import Session
from ...core.policy.policy import Policy, PolicyNotice, PolicyOrigin
from ...core.policy.resolve import Policies
from ...core.readers import fleet_reader
from ...core.readers.warning_evaluation import RecomputedWarnings, recompute_warnings
from ...core.store.bulkhead import take_faults
from ...core.store.database import StoreError, is_caused_by_corruption, open_reader
from ...core.store.queries import config_queries, session_queries
from ...core.store.queries.limit_queries import limits_fingerprint
from ...core.store.warning_log import ContextWarning, read_warnings
from ..base.command_errors import RefusedError, print_errors
from .command_options import CommandOptions


def rebuild_if_damaged(options: CommandOptions, error: Exception) -> str | None:
    """Rebuild the store if it is damaged and caused the error; returns what was done, else None.

    Raises as `rebuild_store` does.
    """
    if isinstance(error, (OSError, RefusedError)):
        return None
    store = options.places.store
    cause = error.__cause__ if isinstance(error, StoreError) else error
    if not (store.is_file() and cause and is_caused_by_corruption(cause, store)):
        return None
    return rebuild_store(options.places, " ".join(str(cause).split()))


class StoreSnapshot(msgspec.Struct, frozen=True, dict=True):
    """One commit of the store, and the time at which it is read; lists are newest first."""

    places: Places
    db: sqlite3.Connection
    now_ms: int
    policies: Policies

    def session_id(self, start: str) -> str:
        """Complete the start of a session's id; raises RefusedError."""
        start = start.encode("utf-8", "replace").decode().lower()
        matches = sorted(session_queries.find_sessions(self.db, start))
        if not matches and any(
            each.startswith(start) for each in session_queries.open_sessions(self.db)
        ):
            raise RefusedError(f"the session {start!r} is open, but it has no messages yet")
        return _only_match(
            start,
            matches,
            "sessions",
            f"no session id starts with {start!r}; `ctxtop sessions` lists them",
        )

    def optional_session_id(self, start: str | None) -> str | None:
        return None if start is None else self.session_id(start)

    def agent_id(self, session_id: str, start: str | None) -> str | None:
        """Complete the start of the id of a session's agent; raises RefusedError."""
        if start is None:
            return None
        start = start.encode("utf-8", "replace").decode()
        known = {each.agent_id for each in self.agents(session_id)}
        return _only_match(
            start,
            sorted(each for each in known if each.startswith(start)),
            "agents",
            f"no agent id in session {session_id} starts with {start!r};"
            f" `ctxtop agents --session {session_id}` lists them",
        )

    def session(self, start: str) -> Session:
        """Read the session whose id begins so; raises RefusedError."""
        return self.sessions(self.session_id(start))[0]

    def sessions(self, only: str | None = None) -> list[Session]:
        sessions = fleet_reader.read_sessions(
            self.db, self.now_ms, _only(only), self.policies, self.percent_sizes
        )
        return sorted(sessions, key=fleet_reader.newest_session_order)

    def stream_sessions(self) -> Iterator[list[Session]]:
        return fleet_reader.stream_sessions(
            self.db, self.now_ms, None, self.policies, self.percent_sizes
        )

    def listed_sessions(self) -> list[Session]:
        return fleet_reader.list_sessions(self.db, self.now_ms, self.policies, self.percent_sizes)

    @cached_property
    def percent_sizes(self) -> tuple[PercentSize, ...]:
        if limits_fingerprint(self.db) is None:
            return ()
        from ...core.readers.limits_reader import read_percent_sizes

        return read_percent_sizes(
            self.db, self.now_ms, self.policies.common.strings_by_name("price")
        )

    def agents(self, only: str | None = None) -> list[Agent]:
        agents = fleet_reader.read_agents(
            self.db, self.sessions(only), self.now_ms, _only(only), self.policies
        )
        return sorted(agents, key=newest_agent_order)

    def short_ids(self) -> dict[str, str]:
        """Map every session's id to the short one that `ctxtop sessions` prints."""
        return shorten_ids(session_queries.find_sessions(self.db, ""))

    def warnings(self, only: str | None = None) -> list[ContextWarning]:
        warnings = read_warnings(self.db, only)
        return sorted(warnings, key=lambda each: (each.warning.at or 0, each.log_id), reverse=True)

    def recompute_warnings(self, only: str | None = None) -> RecomputedWarnings:
        return recompute_warnings(self.db, self.policies, self.now_ms, _only(only))


def _only(session_id: str | None) -> list[str] | None:
    return None if session_id is None else [session_id]


def _only_match(start: str, matches: list[str], kind: str, missing: str) -> str:
    if start in matches:
        return start
    if not matches:
        raise RefusedError(missing)
    if len(matches) > 1:
        raise RefusedError(
            f"{len(matches)} {kind} have ids that start with {start!r}: "
            f"use more of the id, e.g. {matches[0]}"
        )
    return matches[0]


MIN_ID_CHARS: Final = 8


def shorten_ids(session_ids: Iterable[str]) -> dict[str, str]:
    """Cut ids to the same length, as short as still tells them apart."""
    ordered = sorted(set(session_ids))
    if len({each[:MIN_ID_CHARS] for each in ordered}) == len(ordered):
        return {each: each[:MIN_ID_CHARS] for each in ordered}
    shared = (len(os.path.commonprefix(pair)) for pair in pairwise(ordered))  # noqa: RUF071 -- ids
    length = max([MIN_ID_CHARS - 1, *shared]) + 1
    return {each: each[:length] for each in ordered}


@contextmanager
def open_snapshot(
    options: CommandOptions, scan: Callable[[Collector], object] = Collector.scan
) -> Iterator[StoreSnapshot]:
    """Bring the store up to date, unless --no-scan was given, and hold one commit of it.

    Raises RefusedError, PlaceError or StoreError where there is nothing to read.
    """
    places = options.places
    if not options.no_scan:
        update_and_report(places, scan)
    elif not places.store.exists():
        raise RefusedError(f"no store at {places.store} yet: run without --no-scan")
    try:
        with closing(open_reader(places.store)) as db:
            yield _hold_commit(options, db)
    finally:
        show_faults(places, take_faults())


def _hold_commit(options: CommandOptions, db: sqlite3.Connection) -> StoreSnapshot:
    places = options.places
    db.execute("BEGIN")
    root = session_queries.claimed_folder(db)
    if root is not None and root != str(places.folder.root):
        raise PlaceError(
            f"the store {places.store} belongs to {root}: choose another file with --db"
        )
    files = _read_policies(places, config_queries.project_roots(db))
    # The scan has reported the other notices.
    print_errors(
        notice
        for notice in files.notices
        if options.no_scan or notice.origin is PolicyOrigin.COMMAND_LINE
    )
    return StoreSnapshot(places, db, time.time_ns() // 1_000_000, files.policies)


def show_faults(places: Places, faults: Iterable[Problem]) -> None:
    """Print what was left out for faults of ours, and store them with tracebacks for the log."""
    found = list(faults)
    print_errors(found)
    if found:
        save_faults(places, found)


def update_and_report(places: Places, scan: Callable[[Collector], object] = Collector.scan) -> None:
    outcome = update_store(places, scan)
    print_errors((*outcome.notices, *outcome.problems))


def read_policy(
    options: CommandOptions, session: str | None
) -> tuple[Policy, tuple[PolicyNotice, ...]]:
    """Resolve the policy of a session's folder, or of the current folder.

    Raises RefusedError, PlaceError or StoreError where the session cannot be looked up.
    """
    folder: str | None = str(Path.cwd())
    if session is not None:
        with open_snapshot(options) as snapshot:
            folder = snapshot.session(session).project_root
    files = _read_policies(options.places, [folder] if folder else [])
    return files.policies.for_project(folder), files.notices


def _read_policies(places: Places, folders: Iterable[str]) -> PolicyFiles:
    files = PolicyFiles(places.policy)
    files.refresh(folders)
    return files
