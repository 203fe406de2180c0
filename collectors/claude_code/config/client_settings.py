"""Claude Code's settings files: values that affect the context, and hooks; no secrets."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final

from ....core.store.config_records import (
    ConfigScope,
    HookHandlerRecord,
    SettingsFileRecord,
    SettingValue,
)
from ....core.transcript.sanitize import sanitize_path
from .config_files import (
    MAX_JSON_ITEMS,
    ConfigPath,
    add_content,
    as_bool,
    as_float,
    as_int,
    as_list,
    as_object,
    as_title,
    decode_object,
    read_problem,
)

MAX_SETTINGS_BYTES: Final = 1024 * 1024  # bytes; long lists of permissions make about 50,000
_SETTINGS: Final = (
    "model autoCompactEnabled autoCompactWindow precomputeCompactionEnabled idleCompaction "
    "disableAllHooks allowManagedHooksOnly cleanupPeriodDays outputStyle"
)
_VARIABLES: Final = (
    "ANTHROPIC_DEFAULT_HAIKU_MODEL ANTHROPIC_DEFAULT_OPUS_MODEL "
    "ANTHROPIC_DEFAULT_SONNET_MODEL ANTHROPIC_MODEL ANTHROPIC_SMALL_FAST_MODEL "
    "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE CLAUDE_CODE_AUTO_COMPACT_WINDOW "
    "CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE CLAUDE_CODE_DISABLE_1M_CONTEXT "
    "CLAUDE_CODE_DISABLE_PRECOMPACT_SKIP CLAUDE_CODE_MAX_CONTEXT_TOKENS "
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS "
    "CLAUDE_CODE_SKIP_PROMPT_HISTORY CLAUDE_CODE_SUBAGENT_MODEL DISABLE_AUTO_COMPACT "
    "DISABLE_COMPACT"
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
"""Secrets in a command: assignments, headers, keys, URLs."""


def read_settings(found: ConfigPath, scope: ConfigScope, project: str | None) -> SettingsFileRecord:
    record = SettingsFileRecord(
        path=str(found.path),
        folder=str(found.path.parent),
        scope=scope,
        project=project,
        mark=found.mark,
        problem=read_problem(found),
    )
    return add_content(record, found, MAX_SETTINGS_BYTES, _read_fields)


def _read_fields(data: bytes) -> dict[str, Any]:
    # The client treats an empty file as one without settings.
    settings = decode_object(data) if data.strip() else {}
    return {"values": _setting_values(settings), "hooks": _read_hooks(settings)}


def mask_secrets(command: str) -> str:
    """Mask everything in a command that looks like a key, a password or a token."""
    for pattern, instead in _SECRET_PATTERNS:
        command = pattern.sub(instead, command)
    return command


def _setting_values(settings: dict[str, Any]) -> dict[str, SettingValue]:
    env, line = as_object(settings.get("env")), as_object(settings.get("statusLine"))
    values: dict[str, object] = {key: settings.get(key) for key in _SETTINGS.split()}
    values |= {f"env.{name}": env.get(name) for name in _VARIABLES.split()}
    values |= {"statusLine.type": line.get("type"), "statusLine.command": _handler_command(line)}
    for model, chosen in list(as_object(settings.get("modelSettings")).items())[:MAX_JSON_ITEMS]:
        window = as_object(chosen).get("autoCompactWindow")
        values[f"modelSettings.{as_title(model)}.autoCompactWindow"] = window
    for plugin, enabled in list(as_object(settings.get("enabledPlugins")).items())[:MAX_JSON_ITEMS]:
        values[f"enabledPlugins.{as_title(plugin)}"] = enabled
    return {key: kept for key, value in values.items() if (kept := _to_scalar(value)) is not None}


def _to_scalar(value: object) -> SettingValue | None:
    if isinstance(value, str):
        return as_title(mask_secrets(value))
    return value if isinstance(value, (bool, float)) else as_int(value)


def _read_hooks(settings: dict[str, Any]) -> tuple[HookHandlerRecord, ...]:
    hooks: list[HookHandlerRecord] = []
    for event, groups in list(as_object(settings.get("hooks")).items())[:MAX_JSON_ITEMS]:
        for group in as_list(groups):
            matcher = as_title(as_object(group).get("matcher")) or ""
            for handler in as_list(as_object(group).get("hooks")):
                if isinstance(handler, dict):
                    hooks.append(_read_hook(len(hooks), as_title(event) or "", matcher, handler))
    return tuple(hooks)


def _read_hook(
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
    parts = [handler.get(name) for name in ("command", "url", "server", "tool", "prompt")]
    args = " ".join(arg for arg in as_list(handler.get("args")) if isinstance(arg, str))
    shown = " ".join(part for part in (*parts, args) if isinstance(part, str) and part)
    # Not shortened: ctxtop recognizes its own hooks by the end of their commands.
    return sanitize_path(" ".join(mask_secrets(shown).split()))
