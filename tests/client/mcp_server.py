"""A server of two tools over stdio, as small as the client takes one; no package is needed.

A file that is named as its argument gets a line for each call.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_WORDS = " ".join(f"Give the price of item {number} in cents." for number in range(150))

TOOLS: list[Json] = [
    {
        "name": name,
        "description": _WORDS,
        "inputSchema": {"type": "object", "properties": {"item": {"type": "string"}}},
    }
    for name in ("price", "stock")
]


def answer(method: str, params: Json) -> Json:
    """Answer what a client asks."""
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shop", "version": "1"},
            "instructions": "Ask for prices here.",
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        for log in sys.argv[1:]:
            with Path(log).open("a", encoding="utf-8") as file:
                file.write(json.dumps(params["arguments"]) + "\n")
        return {"content": [{"type": "text", "text": "7 cents. " * 300}]}
    return {}


def main() -> None:
    """Serve until stdin ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            result = answer(asked["method"], asked.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
