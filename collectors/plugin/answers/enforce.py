"""At SubagentStop: hold an agent up once that did not compress its result as its skill asks.

Opt-in, and in doubt the agent goes: where no skill is declared, nothing can be read, it was
held up before, or the policy says so (000-14 to 000-19, R000-02).
"""

from __future__ import annotations

import os
from pathlib import Path

from ....core.compliance.codes import Format, Verdict
from ....core.compliance.expected import OFF, WHOLE_TRANSCRIPT, Terms, asked_by, terms_of
from ....core.compliance.judge import judge
from ....core.compliance.lines import MARKER
from ....core.compliance.reason import reason
from ...clean import clean_text
from ...regular import open_regular
from ..agent_run import given_skills, holds, last_words, was_blocked
from ..call import Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from ..call import Call

EVENT: Final = "SubagentStop"

PROJECT_FILE: Final = ".ctxtop.toml"
VARIABLE: Final = "CTXTOP_POLICY_"

_SKILLS: Final = b"compress-"
"""What a definition holds that declares one of the skills."""

DEEPEST: Final = 5
"""Levels of folders below agents/, as the client nests them."""

LARGEST: Final = 512 * 1024
"""Bytes of a definition that are looked at."""

MOST_ENTRIES: Final = 10_000
MOST_BYTES: Final = 32 * 1024 * 1024
"""Of all definitions of a project or of the user: the client waits, and a repository may hold any
number of files."""


def answer(call: Call) -> Reply | None:
    """Say why the agent may not stop yet; None lets it go. Raises OSError: then it goes, too."""
    given = call.fields
    agent_type, path = _text(given, "agent_type"), _text(given, "agent_transcript_path")
    if call.event != EVENT or given.get("stop_hook_active") is not False:
        return None
    if not agent_type or not path:
        # The client's own agents, as that of a compaction, have no type.
        return None
    transcript = Path(path)
    expected = asked_by(given_skills(transcript)) or _declared(given, agent_type)
    if expected is None:
        return None
    text = _text(given, "last_assistant_message") or last_words(transcript)
    if not text:
        return None
    terms = _terms(given)
    judged = judge(clean_text(text), expected, agent_type, terms.limits)
    if terms.mode == OFF or judged.verdict is not Verdict.NON_COMPLIANT:
        return None
    if terms.mode == WHOLE_TRANSCRIPT and holds(transcript, MARKER.encode()):
        return None
    if was_blocked(transcript):
        return None
    return Reply(block_reason=reason(judged, expected, agent_type, terms.limits))


def _text(given: Any, name: str) -> str:  # noqa: ANN401 -- of no type that can be relied on
    value = given.get(name)
    return value if isinstance(value, str) and "\0" not in value else ""


def _declared(given: Any, agent_type: str) -> Format | None:  # noqa: ANN401 -- as above
    """Look into the definitions, where one of them may declare a skill at all."""
    project = os.environ.get("CLAUDE_PROJECT_DIR") or _text(given, "cwd")
    config = _config(_text(given, "transcript_path"))
    if not project:
        return None
    places = [(Path(project), ".claude/agents"), (config, "agents")]
    name = agent_type.encode()
    if ":" not in agent_type and not any(
        _Search(root, name).finds(root / folder, DEEPEST) for root, folder in places
    ):
        return None
    from ...surroundings.declared import declared_skills  # with all that reads definitions

    skills = declared_skills(agent_type, Path(project), config)
    return asked_by(skills) if skills else None


def _config(transcript: str) -> Path:
    """Name the client's folder: it holds projects/<project>/<session>.jsonl."""
    parents = Path(transcript).parents
    if transcript and len(parents) > 2 and parents[1].name == "projects":
        return parents[2]
    from ...config_dir import config_dir

    return config_dir(os.environ, Path.home())


class _Search:
    """Looks for a file that names an agent and a skill: all others need not be understood."""

    def __init__(self, root: Path, name: bytes) -> None:
        """`root` is what no link may lead out of."""
        self._root: Final = os.path.realpath(root)
        self._name: Final = name
        self._entries, self._bytes = MOST_ENTRIES, MOST_BYTES

    def finds(self, folder: Path, levels: int) -> bool:
        """Return whether such a file exists within `levels` folders; skips what cannot be read."""
        real = self._inside(folder)
        if real is None or levels <= 0:
            return False
        try:
            with os.scandir(real) as entries:
                for entry in entries:
                    self._entries -= 1
                    if self._entries < 0 or self._bytes < 0:
                        return False
                    if self._leads_to_one(entry, levels):
                        return True
        except OSError:
            return False
        return False

    def _leads_to_one(self, entry: os.DirEntry[str], levels: int) -> bool:
        path = Path(entry.path)
        if entry.is_dir():
            return self.finds(path, levels - 1)
        return entry.name.endswith(".md") and self._mentions(path)

    def _mentions(self, path: Path) -> bool:
        real = self._inside(path)
        if real is None:
            return False
        try:
            with open_regular(real) as file:
                data = file.read(LARGEST)
        except OSError:
            return False
        self._bytes -= len(data)
        named = self._name in data or path.name.encode() == self._name + b".md"
        return _SKILLS in data and named

    def _inside(self, path: Path) -> Path | None:
        """Resolve a path; None where a link leads out of the root."""
        real = os.path.realpath(path)
        return Path(real) if f"{real}/".startswith(self._root.rstrip("/") + "/") else None


def _terms(given: Any) -> Terms:  # noqa: ANN401 -- as above
    """Return the policy's limits; the policy is only read where somebody set a value."""
    from ...user_file import user_file
    from ..project_root import project_root

    says = any(name.startswith(VARIABLE) for name in os.environ)
    root = project_root(given)
    if not (says or user_file().is_file() or (root and Path(root, PROJECT_FILE).is_file())):
        return Terms()
    from ..at_once import policy_at_once  # with all that a policy needs

    return terms_of(policy_at_once(given))
