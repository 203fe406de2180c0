"""Feature `enforce`: block an agent once at SubagentStop if its result is not compressed.

Opt-in, and when in doubt the agent may stop: no skill is declared, nothing can be read, it was
blocked before, or the policy says so (000-14 to 000-19, R000-02).
"""

from __future__ import annotations

import os
from pathlib import Path

from ....core.compliance.findings import COMPRESSED_MARKER, ComplianceVerdict, ResultFormat
from ....core.compliance.judge import (
    OFF,
    WHOLE_TRANSCRIPT,
    ComplianceSettings,
    block_reason,
    compliance_settings,
    format_of_skills,
    judge_result,
)
from ....core.files.safe_open import open_regular
from ....core.transcript.sanitize import sanitize_text
from ..hook_call import HookReply
from ..hook_transcript import (
    contains_text,
    find_preloaded_skills,
    read_last_message,
    was_blocked_before,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Final

    from ..hook_call import HookCall


ENFORCE_EVENT: Final = "SubagentStop"

PROJECT_FILE: Final = ".ctxtop.toml"
POLICY_VARIABLE_PREFIX: Final = "CTXTOP_POLICY_"

_SKILL_PREFIX: Final = b"compress-"
"""What a definition holds that declares one of the skills."""

MAX_FOLDER_DEPTH: Final = 5
"""Levels of folders below agents/, as the client nests them."""

MAX_DEFINITION_BYTES: Final = 512 * 1024
"""Bytes of a definition that are looked at."""

MAX_ENTRIES: Final = 10_000
MAX_TOTAL_BYTES: Final = 32 * 1024 * 1024
"""Of all definitions of a project or of the user: the client waits, and a repository may hold any
number of files."""


def answer(call: HookCall) -> HookReply | None:
    """Return why the agent may not stop yet; None lets it stop.

    Raises OSError, which also lets it stop.
    """
    given = call.fields
    agent_type, path = _text_field(given, "agent_type"), _text_field(given, "agent_transcript_path")
    if call.event != ENFORCE_EVENT or given.get("stop_hook_active") is not False:
        return None
    if not agent_type or not path:
        # The client's own agents, as that of a compaction, have no type.
        return None
    transcript = Path(path)
    expected = format_of_skills(find_preloaded_skills(transcript)) or _declared_format(
        given, agent_type
    )
    if expected is None:
        return None
    text = _text_field(given, "last_assistant_message") or read_last_message(transcript)
    if not text:
        return None
    terms = _compliance_terms(given)
    judged = judge_result(sanitize_text(text), expected, agent_type, terms.limits)
    if terms.mode == OFF or judged.verdict is not ComplianceVerdict.NON_COMPLIANT:
        return None
    if terms.mode == WHOLE_TRANSCRIPT and contains_text(transcript, COMPRESSED_MARKER.encode()):
        return None
    if was_blocked_before(transcript):
        return None
    return HookReply(block_reason=block_reason(judged, expected, agent_type, terms.limits))


def _text_field(given: Any, name: str) -> str:  # noqa: ANN401 -- of no type that can be relied on
    value = given.get(name)
    return value if isinstance(value, str) and "\0" not in value else ""


def _declared_format(given: Any, agent_type: str) -> ResultFormat | None:  # noqa: ANN401 -- as above
    """Look into the definitions, where one of them may declare a skill at all."""
    project = os.environ.get("CLAUDE_PROJECT_DIR") or _text_field(given, "cwd")
    config = _config_folder(_text_field(given, "transcript_path"))
    if not project:
        return None
    places = [(Path(project), ".claude/agents"), (config, "agents")]
    name = agent_type.encode()
    if ":" not in agent_type and not any(
        _DefinitionSearch(root, name).finds(root / folder, MAX_FOLDER_DEPTH)
        for root, folder in places
    ):
        return None
    from ...claude_code.config.definition_files import (
        declared_skills,  # with all that reads definitions
    )

    skills = declared_skills(agent_type, Path(project), config)
    return format_of_skills(skills) if skills else None


def _config_folder(transcript: str) -> Path:
    """Name the client's folder: it holds projects/<project>/<session>.jsonl."""
    parents = Path(transcript).parents
    if transcript and len(parents) > 2 and parents[1].name == "projects":
        return parents[2]
    from ...standard_paths import claude_config_dir

    return claude_config_dir(os.environ, Path.home())


class _DefinitionSearch:
    """Looks for a file that names an agent and a skill: all others need not be understood."""

    def __init__(self, root: Path, name: bytes) -> None:
        """`root` is what no link may lead out of."""
        self._root: Final = os.path.realpath(root)
        self._name: Final = name
        self._entries, self._bytes = MAX_ENTRIES, MAX_TOTAL_BYTES

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
                data = file.read(MAX_DEFINITION_BYTES)
        except OSError:
            return False
        self._bytes -= len(data)
        named = self._name in data or path.name.encode() == self._name + b".md"
        return _SKILL_PREFIX in data and named

    def _inside(self, path: Path) -> Path | None:
        """Resolve a path; None where a link leads out of the root."""
        real = os.path.realpath(path)
        return Path(real) if f"{real}/".startswith(self._root.rstrip("/") + "/") else None


def _compliance_terms(given: Any) -> ComplianceSettings:  # noqa: ANN401 -- as above
    """Return the policy's limits; the policy is only read where somebody set a value."""
    from ...standard_paths import user_policy_path
    from ..hook_call import find_hook_project

    says = any(name.startswith(POLICY_VARIABLE_PREFIX) for name in os.environ)
    root = find_hook_project(given)
    if not (says or user_policy_path().is_file() or (root and Path(root, PROJECT_FILE).is_file())):
        return ComplianceSettings()
    from ..hook_inputs import resolve_hook_policy  # with all that a policy needs

    return compliance_settings(resolve_hook_policy(given))
