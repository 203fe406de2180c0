"""Settings files: the few values that decide about the context, and the hooks; no secrets."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...core.store.surroundings_facts import HookFact, Scope, SettingsFact
from ..clean import clean_path
from .contained import TooLargeError, read_found, why_not
from .loose import MOST_ITEMS, BadJsonError, decode_json, fields, flag, items, number, title, whole

if TYPE_CHECKING:
    from ...core.store.surroundings_facts import Scalar
    from .contained import Found

LARGEST: Final = 1024 * 1024
"""Bytes; long lists of permissions make about 50,000."""

_KEYS: Final = (
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

_ENV: Final = (
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

_HIDDEN: Final = "…"
_SECRETS: Final = (
    (re.compile(r"(?i)(\w*(?:key|token|secret|passw)\w*\s*[=:]\s*)[^\s\"']+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)(--\w*(?:key|token|secret|passw)[\w-]*[ =])[^\s]+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic) +[\w.~+/=-]+"), rf"\1 {_HIDDEN}"),
    (re.compile(r"\b(sk|xox\w|gh\w|glpat|AKIA)[-_]?[\w-]{12,}"), _HIDDEN),
    (re.compile(r"//[^/\s@]+@"), f"//{_HIDDEN}@"),
    (re.compile(r"(https?://[^\s?\"']+)\?[^\s\"']*"), rf"\1?{_HIDDEN}"),
)
"""What a command may carry that nobody else is to know: assignments, headers, keys, URLs."""


def read_settings(found: Found, scope: Scope, project: str | None) -> SettingsFact:
    """Read one file; what is wrong with it is told in the fact.

    Raises OSError where it cannot be read now.
    """
    fact = SettingsFact(
        path=str(found.path),
        folder=str(found.path.parent),
        scope=scope,
        project=project,
        mark=found.mark,
        problem=why_not(found),
    )
    if fact.problem:
        return fact
    try:
        said = _decode(read_found(found, LARGEST))
    except (BadJsonError, TooLargeError) as error:
        problem = error.strerror if isinstance(error, TooLargeError) else str(error)
        return msgspec.structs.replace(fact, problem=problem)
    return msgspec.structs.replace(fact, values=_values(said), hooks=_hooks(said))


def without_secrets(command: str) -> str:
    """Take out of a command what looks like a key, a password or a token."""
    for pattern, instead in _SECRETS:
        command = pattern.sub(instead, command)
    return command


def _decode(data: bytes) -> dict[str, Any]:
    if not data.strip():
        # The client takes an empty file for one without settings.
        return {}
    said = decode_json(data)
    if not isinstance(said, dict):
        raise BadJsonError("is not a JSON object")
    return said


def _values(said: dict[str, Any]) -> dict[str, Scalar]:
    env, line = fields(said.get("env")), fields(said.get("statusLine"))
    seen: dict[str, object] = {key: said.get(key) for key in _KEYS}
    seen |= {f"env.{name}": env.get(name) for name in _ENV}
    seen |= {"statusLine.type": line.get("type"), "statusLine.command": _command(line)}
    for model, chosen in list(fields(said.get("modelSettings")).items())[:MOST_ITEMS]:
        window = fields(chosen).get("autoCompactWindow")
        seen[f"modelSettings.{title(model)}.autoCompactWindow"] = window
    for plugin, enabled in list(fields(said.get("enabledPlugins")).items())[:MOST_ITEMS]:
        seen[f"enabledPlugins.{title(plugin)}"] = enabled
    return {key: kept for key, value in seen.items() if (kept := _scalar(value)) is not None}


def _scalar(value: object) -> Scalar | None:
    if isinstance(value, str):
        return title(without_secrets(value))
    return value if isinstance(value, (bool, float)) else whole(value)


def _hooks(said: dict[str, Any]) -> tuple[HookFact, ...]:
    found: list[HookFact] = []
    for event, groups in list(fields(said.get("hooks")).items())[:MOST_ITEMS]:
        for group in items(groups):
            matcher = title(fields(group).get("matcher")) or ""
            for handler in items(fields(group).get("hooks")):
                if isinstance(handler, dict):
                    found.append(_hook(len(found), title(event) or "", matcher, handler))
    return tuple(found)


def _hook(position: int, event: str, matcher: str, handler: dict[str, Any]) -> HookFact:
    text = json.dumps(handler, sort_keys=True)
    return HookFact(
        position=position,
        event=event,
        matcher=matcher,
        kind=title(handler.get("type")) or "",
        command=_command(handler),
        timeout_s=number(handler.get("timeout")),
        in_background=flag(handler.get("async")) or False,
        mark=hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
    )


def _command(handler: dict[str, Any]) -> str:
    """Name what a handler runs: a command, an address, a tool of a server, or a prompt."""
    args = " ".join(str(each) for each in items(handler.get("args")) if isinstance(each, str))
    parts = (handler.get(name) for name in ("command", "url", "server", "tool", "prompt"))
    shown = " ".join(each for each in (*parts, args) if isinstance(each, str) and each)
    # Whole: ctxtop knows its own by what stands at its end.
    return clean_path(" ".join(without_secrets(shown).split()))
