"""A lab whose API has a prompt cache, and a clock that a test moves; the ledger of its sessions."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from .lab import Lab
from .prompt_cache import HEADER
from .talks import path_of

if TYPE_CHECKING:
    from pathlib import Path

    from .namespace import Namespace

Json = dict[str, Any]


class CachedLab(Lab):
    """Requests are read from a cache of this lab alone, and say why they could not be."""

    def __init__(self, root: Path, namespace: Namespace, client: Path) -> None:
        self.later_s = 0
        super().__init__(root, namespace, client)

    @property
    @override
    def env(self) -> dict[str, str]:
        asked = {"name": str(self.root), "later_s": self.later_s}
        return super().env | {"ANTHROPIC_CUSTOM_HEADERS": f"{HEADER}: {json.dumps(asked)}"}

    def pass_time(self, session_id: str, seconds: int) -> None:
        """Age a session: move its lines' times back, and the cache's clock forward."""
        self.later_s += seconds
        lines = self.transcript(session_id)
        for line in lines:
            if stamp := line.get("timestamp"):
                then = datetime.fromisoformat(stamp) - timedelta(seconds=seconds)
                line["timestamp"] = f"{then:%Y-%m-%dT%H:%M:%S}.{then.microsecond // 1000:03}Z"
        self.write(session_id, lines)

    def write(self, session_id: str, lines: list[Json]) -> None:
        """Write a session's lines in the form in which the client does."""
        text = "".join(
            json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
        )
        path_of(self, session_id).write_text(text, encoding="utf-8")

    def command(self, *words: str) -> Any:  # noqa: ANN401 -- any JSON
        """Run a command of ctxtop on this lab; give what it printed."""
        folders = ("--config-dir", str(self.config), "--db", str(self.store))
        argv = [sys.executable, "-m", "ctxtop", *words, *folders, "--json"]
        done = self.namespace.run(argv, self.root, self.env, COMMAND_S)
        assert done.code == 0, done.err
        return json.loads(done.out)

    def ledger(self, session_id: str) -> Json:
        """Return what `ctxtop cache` says of a session."""
        found: Json = self.command("cache", session_id)
        return found

    def ledger_without_words(self, session_id: str) -> Json:
        """Return the same for an API that never says why the cache missed."""
        return self._ledger_of(session_id, _without_words(self.transcript(session_id)))

    def ledger_without_records(self, session_id: str) -> Json:
        """Return the same for a client that does not write its requests down either."""
        lines = _without_words(self.transcript(session_id))
        kept = [line for line in lines if not line["type"].startswith("api-request")]
        return self._ledger_of(session_id, kept)

    def _ledger_of(self, session_id: str, lines: list[Json]) -> Json:
        path = path_of(self, session_id)
        before = path.read_bytes()
        try:
            self.write(session_id, lines)
            return self.ledger(session_id)
        finally:
            path.write_bytes(before)


def _without_words(lines: list[Json]) -> list[Json]:
    for line in lines:
        if "diagnostics" in line.get("message", {}):
            line["message"]["diagnostics"] = None
    return lines


COMMAND_S: Final = 120.0
