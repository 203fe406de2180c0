"""Settings as people have them, and commands as an older ctxtop wrote them."""

from __future__ import annotations

import json
from typing import Any

FOREIGN = {"type": "command", "command": "notify-send done", "timeout": 5}

SETTINGS: dict[str, Any] = {
    "model": "opus",
    "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
    "hooks": {
        "Stop": [{"hooks": [FOREIGN]}],
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "guard"}]}],
    },
    "statusLine": {"type": "command", "command": "my-line --wide", "padding": 2},
    "env": {"API_TOKEN": "hush-hush"},
}


def text(value: Any = SETTINGS, indent: int | str | None = 2) -> str:  # noqa: ANN401 -- any JSON
    """Write settings as the client does."""
    return json.dumps(value, indent=indent) + "\n"


def older(event: str, *features: str) -> dict[str, Any]:
    """Return the hook handler of a ctxtop that was installed at another path."""
    place = "/old/lib/python3.11/site-packages/ctxtop/collectors/plugin/run.py"
    words = ["/old/bin/python", "-I", place, "hook", "/old/store.db", event, *features]
    return {"type": "command", "command": " ".join(words), "timeout": 10}
