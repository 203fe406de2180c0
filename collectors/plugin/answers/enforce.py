"""Feature `enforce`: block an agent once at SubagentStop if its result is not compressed.

The client is about to let the agent stop, so what cannot be read counts as unknown, and only lines
that can hold an answer are decoded. The client writes the transcript a moment later than it has
the text (2.1.329): a missing transcript is read as an empty one.

Opt-in, and when in doubt the agent may stop: no skill is declared, nothing can be read, it was
blocked before, or the policy says so (000-14 to 000-19, R000-02).
"""

from __future__ import annotations

import io
import json
import os
import re
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ....core.compliance.findings import (
    COMPRESSED_MARKER,
    OFF,
    WHOLE_TRANSCRIPT,
    ComplianceSettings,
    ComplianceVerdict,
    ResultFormat,
    format_of_skills,
)
from ....core.compliance.judge import block_reason, compliance_settings, judge_result
from ....core.files.safe_open import open_regular
from ....core.transcript.sanitize import sanitize_text
from ..hook_call import HookReply

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO, Final

    from ..hook_call import HookCall


HEAD_BYTES: Final = 4 * 1024 * 1024
"""Of a transcript's beginning: its task and the skills that it was given."""

TAIL_BYTES: Final = 4 * 1024 * 1024
"""Of its end: the last message, and the client's records after it."""

MAX_SEARCHED_BYTES: Final = 256 * 1024 * 1024
"""Bytes that are searched for a block; nobody knows of a larger one whether it had one."""

_CHUNK_BYTES: Final = 1024 * 1024
_FEEDBACK: Final = b"top hook feedback:"
_SKILL: Final = re.compile(r"<command-name>/?([^<]{1,200})</command-name>")


class TranscriptTooLargeError(Exception):
    """A transcript that does not tell what was asked; the message says why."""


def find_preloaded_skills(transcript: Path) -> list[str]:
    """Name the skills whose text the agent had before its first answer; raises OSError."""
    with _open_transcript(transcript) as file:
        head = file.read(HEAD_BYTES)
    found: list[str] = []
    for line in head.split(b"\n"):
        if b'"type":"assistant"' in line or b'"type": "assistant"' in line:
            return found
        if b"<command-name>" not in line:
            continue
        found += [skill[1] for text in _meta_texts(line) if (skill := _SKILL.search(text))]
    return found


def was_blocked_before(transcript: Path) -> bool:
    """Whether a hook has already blocked the agent from stopping.

    Raises OSError or TranscriptTooLargeError.
    """
    with _open_transcript(transcript) as file:
        return any(
            text.partition("hook feedback:")[0].endswith("top ") and "hook feedback:" in text
            for line in _lines_with(file, _FEEDBACK)
            for text in _meta_texts(line)
        )


def contains_text(transcript: Path, text: bytes) -> bool:
    """Whether any line contains `text`, as grep would; raises OSError, TranscriptTooLargeError."""
    with _open_transcript(transcript) as file:
        return bool(_lines_with(file, text))


def read_last_message(transcript: Path) -> str | None:
    """Return the text of the last assistant message that has any; raises OSError.

    None if the last `TAIL_BYTES` hold no such message.
    """
    with _open_transcript(transcript) as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        tail = file.read(TAIL_BYTES)
    words: list[str] = []
    of: str | None = None
    for line in reversed(tail.split(b"\n")):
        if b"assistant" not in line:
            continue
        said = _decode(line)
        message = said.get("message")
        if said.get("type") != "assistant" or not isinstance(message, dict):
            continue
        text = "\n".join(_texts(message)).strip()
        if not text:
            continue
        if of is not None and message.get("id") != of:
            break
        # The blocks of one message stand in a line each.
        of = str(message.get("id"))
        words.append(text)
    return "\n".join(reversed(words)) or None


@contextmanager
def _open_transcript(transcript: Path) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open_regular(transcript))
        except FileNotFoundError:
            file = io.BytesIO()
        yield file


def _lines_with(file: BinaryIO, mark: bytes) -> list[bytes]:
    if file.seek(0, 2) > MAX_SEARCHED_BYTES:
        raise TranscriptTooLargeError("the transcript is too large to be searched")
    file.seek(0)
    found: list[bytes] = []
    rest = b""
    while piece := file.read(_CHUNK_BYTES):
        whole, _, after = piece.rpartition(b"\n")
        if not _:
            rest += piece
            continue
        block = rest + whole
        rest = after
        if mark in block:
            found += [line for line in block.split(b"\n") if mark in line]
    return found + ([rest] if mark in rest else [])


def _meta_texts(line: bytes) -> list[str]:
    said = _decode(line)
    message = said.get("message")
    is_meta = said.get("type") == "user" and said.get("isMeta") is True
    return _texts(message) if is_meta and isinstance(message, dict) else []


def _texts(message: dict[str, Any]) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [
        text
        for block in content
        if isinstance(block, dict) and block.get("type") == "text"
        if isinstance(text := block.get("text"), str)
    ]


def _decode(line: bytes) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


ENFORCE_EVENT: Final = "SubagentStop"

PROJECT_FILE: Final = ".ctxtop.toml"
POLICY_VARIABLE_PREFIX: Final = "CTXTOP_POLICY_"

_SKILL_PREFIX: Final = b"compress-"  # what a definition holds that declares one of the skills
MAX_FOLDER_DEPTH: Final = 5  # levels of folders below agents/, as the client nests them
MAX_DEFINITION_BYTES: Final = 512 * 1024  # bytes of a definition that are looked at
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
    from ...places import claude_config_dir

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
    from ...places import user_policy_path
    from ..hook_call import find_hook_project

    says = any(name.startswith(POLICY_VARIABLE_PREFIX) for name in os.environ)
    root = find_hook_project(given)
    if not (says or user_policy_path().is_file() or (root and Path(root, PROJECT_FILE).is_file())):
        return ComplianceSettings()
    from ..hook_inputs import resolve_hook_policy  # with all that a policy needs

    return compliance_settings(resolve_hook_policy(given))
