"""Claude Code's settings files: values that affect the context, and hooks; no secrets."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ....core.store.config_records import (
    SETTINGS_TABLE,
    ConfigScope,
    HookHandlerRecord,
    SettingsFileRecord,
    SettingValue,
    mark_gone,
    save_settings,
)
from ....core.store.queries.config_queries import SeenFile, files_seen
from ....core.store.writer import Writer
from ....core.transcript.sanitize import sanitize_path
from .config_files import (
    MAX_JSON_ITEMS,
    ConfigPath,
    FileTooLargeError,
    InvalidJsonError,
    as_bool,
    as_float,
    as_int,
    as_list,
    as_object,
    as_title,
    decode_json,
    read_config_file,
    read_problem,
)

if TYPE_CHECKING:
    from ....core.model.problem import ProblemReporter


MAX_SETTINGS_BYTES: Final = 1024 * 1024  # bytes; long lists of permissions make about 50,000
_SETTING_NAMES: Final = (
    "model",
    "autoCompactEnabled",
    "autoCompactWindow",
    "precomputeCompactionEnabled",
    "idleCompaction",
    "disableAllHooks",
    "allowManagedHooksOnly",
    "cleanupPeriodDays",
    "outputStyle",
)

_VARIABLES: Final = (
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",
    "CLAUDE_CODE_AUTO_COMPACT_WINDOW",
    "CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE",
    "CLAUDE_CODE_DISABLE_1M_CONTEXT",
    "CLAUDE_CODE_DISABLE_PRECOMPACT_SKIP",
    "CLAUDE_CODE_MAX_CONTEXT_TOKENS",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS",
    "CLAUDE_CODE_SKIP_PROMPT_HISTORY",
    "CLAUDE_CODE_SUBAGENT_MODEL",
    "DISABLE_AUTO_COMPACT",
    "DISABLE_COMPACT",
)
"""Switches of the context (claude-code-formats 3.5, 4.1); any other variable may be a secret."""

_MASK: Final = "…"
_SECRET_PATTERNS: Final = (
    (re.compile(r"(?i)(\w*(?:key|token|secret|passw)\w*\s*[=:]\s*)[^\s\"']+"), rf"\1{_MASK}"),
    (re.compile(r"(?i)(--\w*(?:key|token|secret|passw)[\w-]*[ =])[^\s]+"), rf"\1{_MASK}"),
    (re.compile(r"(?i)\b(bearer|basic) +[\w.~+/=-]+"), rf"\1 {_MASK}"),
    (re.compile(r"\b(sk|xox\w|gh\w|glpat|AKIA)[-_]?[\w-]{12,}"), _MASK),
    (re.compile(r"//[^/\s@]+@"), f"//{_MASK}@"),
    (re.compile(r"(https?://[^\s?\"']+)\?[^\s\"']*"), rf"\1?{_MASK}"),
)
"""What a command may carry that nobody else is to know: assignments, headers, keys, URLs."""


def read_settings(found: ConfigPath, scope: ConfigScope, project: str | None) -> SettingsFileRecord:
    """Read one file; what is wrong with it is told in the fact.

    Raises OSError where it cannot be read now.
    """
    fact = SettingsFileRecord(
        path=str(found.path),
        folder=str(found.path.parent),
        scope=scope,
        project=project,
        mark=found.mark,
        problem=read_problem(found),
    )
    if fact.problem:
        return fact
    try:
        said = _decode_settings(read_config_file(found, MAX_SETTINGS_BYTES))
    except (InvalidJsonError, FileTooLargeError) as error:
        problem = error.strerror if isinstance(error, FileTooLargeError) else str(error)
        return msgspec.structs.replace(fact, problem=problem)
    return msgspec.structs.replace(fact, values=_setting_values(said), hooks=_to_hook_facts(said))


def mask_secrets(command: str) -> str:
    """Mask everything in a command that looks like a key, a password or a token."""
    for pattern, instead in _SECRET_PATTERNS:
        command = pattern.sub(instead, command)
    return command


def _decode_settings(data: bytes) -> dict[str, Any]:
    if not data.strip():
        # The client takes an empty file for one without settings.
        return {}
    said = decode_json(data)
    if not isinstance(said, dict):
        raise InvalidJsonError("is not a JSON object")
    return said


def _setting_values(said: dict[str, Any]) -> dict[str, SettingValue]:
    env, line = as_object(said.get("env")), as_object(said.get("statusLine"))
    seen: dict[str, object] = {key: said.get(key) for key in _SETTING_NAMES}
    seen |= {f"env.{name}": env.get(name) for name in _VARIABLES}
    seen |= {"statusLine.type": line.get("type"), "statusLine.command": _handler_command(line)}
    for model, chosen in list(as_object(said.get("modelSettings")).items())[:MAX_JSON_ITEMS]:
        window = as_object(chosen).get("autoCompactWindow")
        seen[f"modelSettings.{as_title(model)}.autoCompactWindow"] = window
    for plugin, enabled in list(as_object(said.get("enabledPlugins")).items())[:MAX_JSON_ITEMS]:
        seen[f"enabledPlugins.{as_title(plugin)}"] = enabled
    return {key: kept for key, value in seen.items() if (kept := _to_scalar(value)) is not None}


def _to_scalar(value: object) -> SettingValue | None:
    if isinstance(value, str):
        return as_title(mask_secrets(value))
    return value if isinstance(value, (bool, float)) else as_int(value)


def _to_hook_facts(said: dict[str, Any]) -> tuple[HookHandlerRecord, ...]:
    found: list[HookHandlerRecord] = []
    for event, groups in list(as_object(said.get("hooks")).items())[:MAX_JSON_ITEMS]:
        for group in as_list(groups):
            matcher = as_title(as_object(group).get("matcher")) or ""
            for handler in as_list(as_object(group).get("hooks")):
                if isinstance(handler, dict):
                    found.append(_to_hook_fact(len(found), as_title(event) or "", matcher, handler))
    return tuple(found)


def _to_hook_fact(
    position: int, event: str, matcher: str, handler: dict[str, Any]
) -> HookHandlerRecord:
    text = json.dumps(handler, sort_keys=True)
    return HookHandlerRecord(
        position=position,
        event=event,
        matcher=matcher,
        kind=as_title(handler.get("type")) or "",
        command=_handler_command(handler),
        timeout_s=as_float(handler.get("timeout")),
        in_background=as_bool(handler.get("async")) or False,
        mark=hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
    )


def _handler_command(handler: dict[str, Any]) -> str:
    """Name what a handler runs: a command, an address, a tool of a server, or a prompt."""
    args = " ".join(str(each) for each in as_list(handler.get("args")) if isinstance(each, str))
    parts = (handler.get(name) for name in ("command", "url", "server", "tool", "prompt"))
    shown = " ".join(each for each in (*parts, args) if isinstance(each, str) and each)
    # Whole: ctxtop knows its own by what stands at its end.
    return sanitize_path(" ".join(mask_secrets(shown).split()))


class SettingsFollower:
    """The settings files that the store knows."""

    def __init__(self, writer: Writer, tell: ProblemReporter) -> None:
        self._writer: Final = writer
        self._problems: Final = tell
        self._known: Final = files_seen(writer.connection, SETTINGS_TABLE)

    def known_names(self, folder: Path) -> set[str]:
        """Name the files of a folder that were there the last time."""
        known = self._known.get(str(folder), {})
        return {path.rpartition("/")[2] for path in known}

    def follow(
        self, path: Path, found: ConfigPath | None, scope: ConfigScope, project: str | None
    ) -> None:
        """Bring the store up to date with one file, or with that it is not there."""
        known = self._known.setdefault(str(path.parent), {})
        place = str(path)
        seen = known.get(place)
        if found is None:
            if seen:
                mark_gone(self._writer, SETTINGS_TABLE, [place])
                del known[place]
                self._problems.resolve(place)
            return
        if seen is None or seen.mark != found.mark:
            try:
                fact = read_settings(found, scope, project)
            except FileNotFoundError:
                return
            except OSError as error:
                self._problems.report_unreadable(place, error)
                return
            save_settings(self._writer, fact)
            seen = known[place] = SeenFile(fact.mark, fact.problem)
        self._problems.report_or_resolve(
            place, seen.problem, "Claude Code ignores the file whole: correct it"
        )
