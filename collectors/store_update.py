"""Bringing the store up to date, and making a damaged one again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import msgspec

from ..core.model.problem import Problem
from ..core.store.database import StoreError, explain_error, is_caused_by_corruption, move_aside
from ..core.store.writer import OtherFolderError, Writer
from .claude_code.collector_thread import Collector, ScanProgress, StoredChange
from .places import PlaceError, Places
from .policy_files import PolicyFiles


class ScanOutcome(msgspec.Struct):
    """What one scan met; it is the collector's listener."""

    problems: list[Problem] = []
    notices: list[str] = []

    def on_progress(self, progress: ScanProgress) -> None:
        """Nothing: a command is silent until it is done."""

    def on_change(self, change: StoredChange) -> None:
        """Nothing: the command reads when all is stored."""

    def on_scan_finished(self) -> None:
        """Nothing: scan() returns."""

    def on_problem(self, problem: Problem) -> None:
        """Keep it for the end."""
        self.problems.append(problem)

    def on_notice(self, notice: Problem) -> None:
        """Keep it for the end."""
        self.notices.append(str(notice))

    def on_resolved(self, where: str) -> None:
        """Nothing: what has ended is not told."""


def rebuild_store(places: Places, damage: str) -> str:
    """Move a damaged store aside, read everything anew, and say so in one sentence.

    Raises StoreError or PlaceError where the new one cannot be made.
    """
    aside = move_aside(places.store)
    if places.exists:
        update_store(places)
    return f"the store {places.store} was damaged ({damage}): moved to {aside.name}, made again"


def open_writer(places: Places) -> tuple[Writer, list[str]]:
    """Open the store of these places for writing; the notices say what was set aside.

    Raises StoreError, or PlaceError where the store is another folder's.
    """
    writer = Writer(places.store)
    try:
        writer.claim_folder(places.folder.root)
    except OtherFolderError as error:
        writer.close()
        raise PlaceError(
            f"the store {places.store} holds the sessions of {error}: give another --db"
        ) from error
    return writer, [writer.notice] if writer.notice else []


def update_store(
    places: Places, scan: Callable[[Collector], object] = Collector.scan
) -> ScanOutcome:
    """Scan once, or look in another way.

    Raises PlaceError where there is nothing to scan, StoreError where it fails.
    """
    if not places.exists:
        raise PlaceError(
            f"no Claude Code folder at {places.config_dir}: name it with --config-dir,"
            " or see `ctxtop demo`"
        )
    outcome = ScanOutcome()
    writer, notices = open_writer(places)
    outcome.notices += notices
    # What a command's own words change is for its eyes, not for the log that all share.
    files = PolicyFiles(msgspec.structs.replace(places.policy, command_line=()))
    try:
        try:
            scan(Collector(places.folder, writer, outcome, files))
        except Exception as error:
            if not is_caused_by_corruption(error, places.store):
                raise
            outcome.notices.append(writer.rebuild())
            writer.claim_folder(places.folder.root)
            scan(Collector(places.folder, writer, outcome, files))
    except sqlite3.Error as error:
        what, remedy = explain_error(error)
        raise StoreError(f"store {places.store}: {what}; {remedy}") from error
    finally:
        writer.close()
    return outcome
