"""Rows that show how large windows are and where the client compacts, as queries return them."""

import msgspec

from .config_records import SettingsFileRecord


class AutoCompactionRow(msgspec.Struct, frozen=True):
    """An automatic compaction, and the size of the requests before it in tokens."""

    session_id: str
    agent_id: str | None
    model: str  # of the last answer before it
    asked_model: str | None
    client_version: str | None
    earlier_tokens: int | None  # input of the last answer but one before it
    pre_tokens: int
    was_refused: int = 0  # 1 if a request without an answer precedes it: the API refused it
    writes_requests: int = 0  # 1 if the client records its requests
    is_precomputed: int = 0  # 1 if its summary was made at the trigger and used when refused


class LargeModelRow(msgspec.Struct, frozen=True):
    """A model whose context exceeded the small window in some session."""

    model: str
    asked_model: str | None
    client_version: str | None


class WindowRow(msgspec.Struct, frozen=True):
    """A window in tokens that the client itself reported for a session."""

    session_id: str
    model: str
    asked_model: str | None
    client_version: str | None
    window_tokens: int
    is_measured: int = 0  # 1 if the module inside the client reported it, 0 for the status line


class EvidenceRows(msgspec.Struct, frozen=True):
    """The rows that evidence is based on."""

    reported_windows: tuple[WindowRow, ...] = ()
    large_models: tuple[LargeModelRow, ...] = ()
    auto_compactions: tuple[AutoCompactionRow, ...] = ()
    settings: tuple[SettingsFileRecord, ...] = ()
    environments: dict[str, dict[str, str]] = {}
    agent_windows: dict[tuple[str, str | None], int] = {}


class MeasurementComparisonRow(msgspec.Struct, frozen=True):
    """A session's newest measurement and the transcript's answer before it; tokens."""

    session_id: str
    at: int
    measured_tokens: int
    answer_tokens: int | None  # None if there is no answer since the last boundary
