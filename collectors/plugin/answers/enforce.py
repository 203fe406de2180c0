"""Feature `enforce`: block an agent once at SubagentStop if its result is not compressed.

The client is about to let the agent stop, so what cannot be read counts as unknown, and only lines
that can hold an answer are decoded. The client writes the transcript a moment later than it has
the text (2.1.329): a missing transcript is read as an empty one.

Opt-in, and when in doubt the agent may stop: no skill is declared, nothing can be read, it was
blocked before, or the policy says so (000-14 to 000-19, R000-02).
"""

from __future__ import annotations

import io
import os

from ....core.files.safe_open import open_regular
from ...plugin_files.plugin_log import decode_object
from ..hook_answer import HookReply, find_hook_project, text_field

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Any, BinaryIO, Final

    from ....core.compliance.expectations import ComplianceSettings
    from ..hook_answer import HookCall


HEAD_BYTES: Final = 4 * 1024 * 1024  # of a transcript: its task and the skills that it was given
TAIL_BYTES: Final = 4 * 1024 * 1024  # the last message, and the client's records after it
MAX_SEARCHED_BYTES: Final = 256 * 1024 * 1024  # whether a larger file holds a block is unknown
_CHUNK_BYTES: Final = 1024 * 1024
MAX_SKILL_CHARS: Final = 200  # of a name


class TranscriptTooLargeError(Exception):
    """A transcript is too large to be searched."""


def find_preloaded_skills(transcript: str | Path) -> list[str]:
    """Name the skills whose text the agent had before its first answer; raises OSError."""
    with _open_transcript(transcript) as file:
        head = file.read(HEAD_BYTES)
    skills: list[str] = []
    for line in head.split(b"\n"):
        if b'"type":"assistant"' in line or b'"type": "assistant"' in line:
            break
        if b"<command-name>" in line:
            skills += [skill for text in _meta_texts(line) if (skill := _skill_in(text))]
    return skills


def _skill_in(text: str) -> str:
    name, end, _ = text.partition("<command-name>")[2].partition("</command-name>")
    name = name.removeprefix("/")
    return name if end and "<" not in name and len(name) <= MAX_SKILL_CHARS else ""


def was_blocked_before(transcript: str | Path) -> bool:
    """Whether a hook has already blocked the agent from stopping.

    Raises OSError or TranscriptTooLargeError.
    """
    with _open_transcript(transcript) as file:
        return any(
            text.partition("hook feedback:")[0].endswith("top ") and "hook feedback:" in text
            for line in _lines_with(file, b"top hook feedback:")
            for text in _meta_texts(line)
        )


def has_said(transcript: str | Path, text: str) -> bool:
    """Whether any of the agent's answers contains `text`.

    Raises OSError or TranscriptTooLargeError.
    """
    with _open_transcript(transcript) as file:
        return any(
            text in each
            for line in _lines_with(file, text.encode())
            for each in _texts(_message(line, "assistant"))
        )


def read_last_message(transcript: str | Path) -> str | None:
    """Return the text of the last assistant message that has any; raises OSError.

    None if the last `TAIL_BYTES` hold no such message.
    """
    with _open_transcript(transcript) as file:
        file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
        tail = file.read(TAIL_BYTES)
    texts: list[str] = []
    message_id = None
    for line in reversed(tail.split(b"\n")):
        if b"assistant" not in line:
            continue
        message = _message(line, "assistant")
        text = "\n".join(_texts(message)).strip()
        if not text:
            continue
        if message_id is not None and message.get("id") != message_id:
            break
        # Each block of one message has a line of its own.
        message_id = str(message.get("id"))
        texts.append(text)
    return "\n".join(reversed(texts)) or None


def _open_transcript(transcript: str | Path) -> BinaryIO:
    try:
        return open_regular(transcript)
    except FileNotFoundError:
        return io.BytesIO()


def _lines_with(file: BinaryIO, mark: bytes) -> list[bytes]:
    if file.seek(0, 2) > MAX_SEARCHED_BYTES:
        raise TranscriptTooLargeError("the transcript is too large to search")
    file.seek(0)
    found: list[bytes] = []
    rest = b""
    while piece := file.read(_CHUNK_BYTES):
        lines, newline, after = piece.rpartition(b"\n")
        if not newline:
            rest += piece
            continue
        block = rest + lines
        rest = after
        if mark in block:
            found += [line for line in block.split(b"\n") if mark in line]
    return found + ([rest] if mark in rest else [])


def _meta_texts(line: bytes) -> list[str]:
    return _texts(_message(line, "user", is_meta=True))


def _message(line: bytes, kind: str, *, is_meta: bool = False) -> dict[str, Any]:
    """Return the message of a line of this kind; empty for any other line."""
    entry = decode_object(line.decode("utf-8", "replace").strip())
    if entry is None or entry.get("type") != kind:
        return {}
    message = entry.get("message")
    has_flag = not is_meta or entry.get("isMeta") is True
    return message if has_flag and isinstance(message, dict) else {}


def _texts(message: dict[str, Any]) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [
        text
        for block in (content if isinstance(content, list) else [])
        if isinstance(block, dict) and block.get("type") == "text"
        if isinstance(text := block.get("text"), str)
    ]


PROJECT_FILE: Final = ".ctxtop.toml"
POLICY_VARIABLE_PREFIX: Final = "CTXTOP_POLICY_"

_SKILL_PREFIX: Final = "compress-"  # of the skills' names
MAX_FOLDER_DEPTH: Final = 5  # levels of folders below agents/, as the client nests them
MAX_DEFINITION_BYTES: Final = 512 * 1024  # read of one definition
MAX_ENTRIES: Final = 10_000
MAX_TOTAL_BYTES: Final = 32 * 1024 * 1024
"""The most that is read of all definitions of a project or the user: the client waits, and a
repository may hold any number of files."""


def answer(call: HookCall) -> HookReply | None:
    """Return why the agent may not stop yet; None lets it stop.

    Raises OSError, which also lets it stop.
    """
    fields = call.fields
    agent_type = _text_field(fields, "agent_type")
    path = _text_field(fields, "agent_transcript_path")
    if call.event != "SubagentStop" or fields.get("stop_hook_active") is not False:
        return None
    if not agent_type or not path:
        # The client's own agents, as that of a compaction, have no type.
        return None
    skills = _compressing(find_preloaded_skills(path))
    skills = skills or _compressing(_declared_skills(call, agent_type))
    return _judge(call, path, skills) if skills else None


def _compressing(skills: Iterable[str]) -> list[str]:
    return [skill for skill in skills if _SKILL_PREFIX in skill]


def _judge(call: HookCall, transcript: str, skills: list[str]) -> HookReply | None:
    # Most agents have no such skill: nothing is imported for them.
    call.begin_slow()
    from ....core.model import result_formats

    fields = call.fields
    agent_type = _text_field(fields, "agent_type")
    expected = result_formats.format_of_skills(skills)
    if expected is None:
        return None
    from ....core.compliance import expectations, judge
    from ....core.model import findings
    from ....core.transcript.sanitize import sanitize_text

    text = _text_field(fields, "last_assistant_message") or read_last_message(transcript)
    if not text:
        return None
    settings = _compliance_settings(fields)
    judged = judge.judge_result(sanitize_text(text), expected, agent_type, settings.limits)
    if (
        settings.mode == expectations.OFF
        or judged.verdict is not findings.ComplianceVerdict.NON_COMPLIANT
    ):
        return None
    marker = result_formats.COMPRESSED_MARKER
    if settings.mode == expectations.WHOLE_TRANSCRIPT and (
        # The client writes the last message a moment later.
        marker in text or has_said(transcript, marker)
    ):
        return None
    if was_blocked_before(transcript):
        return None
    return HookReply(block_reason=judge.block_reason(judged, expected, agent_type, settings.limits))


def _text_field(fields: Mapping[str, Any], name: str) -> str:
    value = text_field(fields, name)
    return "" if "\0" in value else value


def _declared_skills(call: HookCall, agent_type: str) -> Iterable[str]:
    """Return the skills that the agent's definition declares.

    Definitions are only parsed if a quick search finds one that may declare a skill.
    """
    fields = call.fields
    project = os.environ.get("CLAUDE_PROJECT_DIR") or _text_field(fields, "cwd")
    config = _config_folder(_text_field(fields, "transcript_path"))
    if not project:
        return ()
    name = agent_type.encode()
    if ":" not in agent_type and not any(
        _DefinitionSearch(root, name).finds(os.path.join(root, folder), MAX_FOLDER_DEPTH)
        for root, folder in ((project, ".claude/agents"), (config, "agents"))
    ):
        return ()
    call.begin_slow()
    from pathlib import Path

    from ...claude_code.config.definition_files import (
        declared_skills,  # with all that reads definitions
    )

    return declared_skills(agent_type, Path(project), Path(config)) or ()


def _config_folder(transcript: str) -> str:
    """Return the client's folder: it holds projects/<project>/<session>.jsonl."""
    projects = os.path.dirname(os.path.dirname(transcript))
    if os.path.basename(projects) == "projects":
        return os.path.dirname(projects)
    from pathlib import Path

    from ...locations.places import claude_config_dir

    return str(claude_config_dir(os.environ, Path.home()))


class _DefinitionSearch:
    """Looks for a file that names an agent and a skill: all others need not be parsed."""

    def __init__(self, root: str, name: bytes) -> None:
        """No link out of `root` is followed."""
        self._root: Final = os.path.realpath(root)
        self._name: Final = name
        self._entries, self._bytes = MAX_ENTRIES, MAX_TOTAL_BYTES

    def finds(self, folder: str, levels: int) -> bool:
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
                    if entry.is_dir():
                        if self.finds(entry.path, levels - 1):
                            return True
                    elif entry.name.endswith(".md") and self._mentions(entry.path):
                        return True
        except OSError:
            return False
        return False

    def _mentions(self, path: str) -> bool:
        real = self._inside(path)
        if real is None:
            return False
        try:
            with open_regular(real) as file:
                data = file.read(MAX_DEFINITION_BYTES)
        except OSError:
            return False
        self._bytes -= len(data)
        named = self._name in data or os.path.basename(path).encode() == self._name + b".md"
        return _SKILL_PREFIX.encode() in data and named

    def _inside(self, path: str) -> str | None:
        """Resolve a path; None if a link leads out of the root."""
        real = os.path.realpath(path)
        return real if f"{real}/".startswith(self._root.rstrip("/") + "/") else None


def _compliance_settings(fields: Mapping[str, Any]) -> ComplianceSettings:
    """Return the policy's limits; the policy is only resolved if somebody set a value."""
    from ....core.compliance import expectations
    from ...locations.places import user_policy_path

    has_variable = any(name.startswith(POLICY_VARIABLE_PREFIX) for name in os.environ)
    root = find_hook_project(fields)
    has_file = user_policy_path().is_file() or os.path.isfile(f"{root}/{PROJECT_FILE}")
    if not (has_variable or has_file):
        return expectations.ComplianceSettings()
    from ..hook_inputs import resolve_hook_policy  # with all that a policy needs

    return expectations.compliance_settings(resolve_hook_policy(fields))
