"""Reads the hooks of settings files and plugins, without what looks like a secret."""

from typing import Any, Final

from ....core.lazy_pattern import lazy_pattern
from ....core.model.config_records import HookHandler
from ....core.transcript.sanitize import sanitize_path
from .config_files import MAX_JSON_ITEMS, as_list, as_object, as_title

MAX_TIMEOUT_S: Final = 7 * 86_400  # a longer one is a mistake, or milliseconds

_MASK: Final = "…"
_SECRET_PATTERNS: Final = (
    (lazy_pattern(r"(?i)(\w*(?:key|token|secret|passw)\w*\s*[=:]\s*)[^\s\"']+"), rf"\1{_MASK}"),
    (lazy_pattern(r"(?i)(--\w*(?:key|token|secret|passw)[\w-]*[ =])[^\s]+"), rf"\1{_MASK}"),
    (lazy_pattern(r"(?i)\b(bearer|basic) +[\w.~+/=-]+"), rf"\1 {_MASK}"),
    (lazy_pattern(r"\b(sk|xox\w|gh\w|glpat|AKIA)[-_]?[\w-]{12,}"), _MASK),
    (lazy_pattern(r"//[^/\s@]+@"), f"//{_MASK}@"),
    (lazy_pattern(r"(https?://[^\s?\"']+)\?[^\s\"']*"), rf"\1?{_MASK}"),
)
"""Secrets in a command: assignments, headers, keys, URLs."""


def mask_secrets(command: str) -> str:
    """Mask everything in a command that looks like a key, a password or a token."""
    for pattern, instead in _SECRET_PATTERNS:
        command = pattern.sub(instead, command)
    return command


def read_hooks(settings: dict[str, Any]) -> tuple[HookHandler, ...]:
    return tuple(
        _read_handler(event, handler, as_title(as_object(group).get("matcher")))
        for event, groups in list(as_object(settings.get("hooks")).items())[:MAX_JSON_ITEMS]
        for group in as_list(groups)
        for handler in as_list(as_object(group).get("hooks"))
        if isinstance(handler, dict)
    )


def _read_handler(event: str, handler: dict[str, Any], matcher: str | None) -> HookHandler:
    message = handler.get("statusMessage")
    return HookHandler(
        as_title(event) or "",
        as_title(handler.get("type")) or "command",
        handler_command(handler),
        _read_timeout(handler.get("timeout")),
        describe_command(message) if isinstance(message, str) and message else None,
        matcher,
    )


def _read_timeout(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 < value < MAX_TIMEOUT_S else None


def handler_command(handler: dict[str, Any]) -> str:
    parts = [handler.get(name) for name in ("command", "url", "server", "tool", "prompt")]
    args = " ".join(arg for arg in as_list(handler.get("args")) if isinstance(arg, str))
    shown = " ".join(part for part in (*parts, args) if isinstance(part, str) and part)
    return describe_command(shown)


_CONTROL_PICTURES: Final = lazy_pattern("[\u2400-\u2426]")
"""The client records a hook's line ends as \u2424 in its summary (client 2.1.329)."""


def describe_command(command: str) -> str:
    """Write a hook's command in one line, without what looks like a secret."""
    # Not shortened: ctxtop recognizes its own hooks by the end of their commands.
    return sanitize_path(" ".join(mask_secrets(_CONTROL_PICTURES.sub("\n", command)).split()))
