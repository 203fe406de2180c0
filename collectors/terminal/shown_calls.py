"""Find the pending call that a permission prompt shows.

Each tool has its own prompt. What a prompt of 2.1.329 has to show for a call (seen) is made from
the call, and compared with all of the screen's prompt. Some show only a part of their call: the
dialog of ctxtop shows all of it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from os.path import relpath
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import urlsplit

import msgspec

from ...core.transcript.sanitize import sanitize_text
from .pending_calls import PendingCall, read_pending_calls
from .permission_prompt import PermissionPrompt, PromptRefusedError
from .shown_changes import read_cell, read_text, shows_change, shows_edit, squeeze

MAX_AGENT_FILES: Final = 50  # of a session, the newest ones: an agent that asks has just written
PROCEED: Final = "Do you want to proceed?"
WITHHELD: Final = "deny unless expected"  # the client's words where it does not show all of a call


def find_shown_call(prompt: PermissionPrompt, transcript: Path, cwd: str) -> PendingCall:
    """Find the one pending call that a prompt shows; raises PromptRefusedError, OSError.

    `transcript` is the session's; `cwd` is where its client works.
    """
    paths = _agent_files(transcript) if prompt.agent else [transcript]
    calls = [call for path in paths for call in read_pending_calls(path)]
    shown = [call for call in calls if _shows(prompt, call, cwd)]
    if not shown:
        raise PromptRefusedError(f"{_why_not(prompt, calls)}: answer it in its terminal")
    if len(shown) > 1:
        raise PromptRefusedError(f"{len(shown)} of its pending tool calls match its prompt")
    if not _is_printable(shown[0]):
        raise PromptRefusedError("the tool call contains characters that a terminal does not show")
    return shown[0]


def _agent_files(transcript: Path) -> list[Path]:
    paths = (transcript.with_suffix("") / "subagents").glob("agent-*.jsonl")
    return sorted(paths, key=lambda path: -path.lstat().st_mtime)[:MAX_AGENT_FILES]


def _why_not(prompt: PermissionPrompt, calls: list[PendingCall]) -> str:
    if not calls:
        # On a busy machine 2.1.329 sometimes writes it only once the prompt is answered (seen).
        return "Claude Code has not written the tool call to its transcript"
    unknown = sorted({call.tool for call in calls if _kind(call) not in _EXPECTED})
    if unknown and len(unknown) == len({call.tool for call in calls}):
        return f"ctxtop cannot verify a prompt for {', '.join(unknown)}"
    if squeeze(WITHHELD) in squeeze(prompt.body):
        return "Claude Code does not show all of the call in its prompt"
    return "its prompt does not match the tool call that is pending in the transcript"


def _is_printable(call: PendingCall) -> bool:
    """Whether what ctxtop shows of a call is all that is in it."""
    return all(sanitize_text(text) == text for part in call.request for text in part)


_Check = Callable[[str], bool]


class ExpectedPrompt(msgspec.Struct, frozen=True):
    title: str
    subject: _Check
    body: _Check
    question: str = PROCEED

    def fits(self, shown: PermissionPrompt) -> bool:
        return (
            shown.title == self.title
            and self.subject(shown.subject)
            and self.body(shown.body)
            and squeeze(shown.question) == squeeze(self.question)
        )


def _shows(prompt: PermissionPrompt, call: PendingCall, cwd: str) -> bool:
    expect = _EXPECTED.get(_kind(call))
    return expect is not None and any(each.fits(prompt) for each in expect(call, cwd))


def _kind(call: PendingCall) -> str:
    return _MCP if call.tool.startswith(_MCP) else call.tool


def _same(*texts: str) -> _Check:
    expected = {squeeze(text) for text in texts}
    return lambda shown: squeeze(shown) in expected


def _anything(_shown: str) -> bool:
    return True


def _path_names(path: str, cwd: str) -> tuple[str, ...]:
    """Return how the client may write a path: as it was given, or from where it works."""
    names = [path]
    if PurePath(path).is_absolute() and PurePath(cwd).is_absolute():
        names.append(relpath(path, cwd))
    return tuple(names)


def _bash(call: PendingCall, _cwd: str) -> Iterator[ExpectedPrompt]:
    subject = _same(call.text("description") or "Run shell command")
    yield ExpectedPrompt("Bash command", subject, _same(call.text("command")))


def _monitor(call: PendingCall, _cwd: str) -> Iterator[ExpectedPrompt]:
    subject = _same(call.text("description"))
    yield ExpectedPrompt("Monitor", subject, _same(call.text("command")))


def _fetch(call: PendingCall, _cwd: str) -> Iterator[ExpectedPrompt]:
    url = call.text("url")
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return
    yield ExpectedPrompt(
        "Fetch",
        _same(f"Claude wants to fetch content from {host}"),
        _same(f"url: {url} prompt: {call.text('prompt')}"),
        "Do you want to allow Claude to fetch this content?",
    )


_DESCRIPTION_KEY: Final = re.compile(r"\([^()]* to (?:expand|collapse) description\)\s*$")


def _search(call: PendingCall, _cwd: str) -> Iterator[ExpectedPrompt]:
    query = call.text("query")
    expected = squeeze(f"Claude wants to search the web for: {query}")

    def begins(shown: str) -> bool:
        text = squeeze(_DESCRIPTION_KEY.sub("", shown))
        is_cut = text.endswith("…") and expected.startswith(text[:-1])
        return is_cut or text == expected

    domains = "".join(
        f", {words}: {', '.join(call.input[name])}"
        for name, words in _DOMAINS.items()
        if call.input.get(name)
    )
    yield ExpectedPrompt("Tool use", begins, _same(f'Web Search("{query}"{domains})'))


_DOMAINS: Final = {
    "allowed_domains": "only allowing domains",
    "blocked_domains": "blocking domains",
}


def _agent(call: PendingCall, _cwd: str) -> Iterator[ExpectedPrompt]:
    body = _same(f"Agent({call.text('description')})")
    yield ExpectedPrompt("Tool use", _same("Launch a new agent"), body)


def _skill(call: PendingCall, _cwd: str) -> Iterator[ExpectedPrompt]:
    subject = _same("Claude may use instructions, code, or files from this Skill.")
    # Its body is the skill's own description.
    yield ExpectedPrompt(f'Use skill "{call.text("skill")}"?', subject, _anything)


def _read(call: PendingCall, cwd: str) -> Iterator[ExpectedPrompt]:
    names = _path_names(call.text("file_path"), cwd)
    body = _same(*(f"Read({name}{_read_range(call)})" for name in names))
    yield ExpectedPrompt("Read file", _same(""), body)


def _read_range(call: PendingCall) -> str:
    first, limit, pages = (call.input.get(name) for name in ("offset", "limit", "pages"))
    if pages:
        return f" · pages {pages}"
    if isinstance(limit, int):
        first = first if isinstance(first, int) else 1
        return f" · lines {first}-{first + limit - 1}"
    return f" · from line {first}" if first else ""


def _write(call: PendingCall, cwd: str) -> Iterator[ExpectedPrompt]:
    path, content = call.text("file_path"), call.text("content")
    name, subject = PurePath(path).name, _same(*_path_names(path, cwd))
    created = f"Do you want to create {name}?"
    yield ExpectedPrompt("Create file", subject, _same(_number_lines(content)), created)
    before = read_text(Path(cwd, path))
    if before is not None:
        texts = (text.removesuffix("\n") for text in (before, content))
        change = partial(_is_change, *texts)
        yield ExpectedPrompt("Overwrite file", subject, change, f"Do you want to overwrite {name}?")


def _is_change(before: str, after: str, shown: str) -> bool:
    return shows_change(shown, before, after)


def _number_lines(text: str) -> str:
    lines = (text or "(No content)").removesuffix("\n").split("\n")
    return "\n".join(f"{number} {line}" for number, line in enumerate(lines, 1))


def _edit(call: PendingCall, cwd: str) -> Iterator[ExpectedPrompt]:
    path, old, new = (call.text(name) for name in ("file_path", "old_string", "new_string"))
    before = read_text(Path(cwd, path)) if old else ""
    if before is None:
        return
    places = before.count(old) if call.input.get("replace_all") else 1
    after = before.replace(old, new, places)

    def shows(shown: str) -> bool:
        return shows_edit(shown, before.removesuffix("\n"), after.removesuffix("\n"), places)

    question = f"Do you want to make this edit to {PurePath(path).name}?"
    yield ExpectedPrompt("Edit file", _same(*_path_names(path, cwd)), shows, question)


def _edit_notebook(call: PendingCall, cwd: str) -> Iterator[ExpectedPrompt]:
    path, cell_id, source = (call.text(name) for name in ("notebook_path", "cell_id", "new_source"))
    mode, kind = call.text("edit_mode") or "replace", call.text("cell_type")
    before = read_cell(Path(cwd, path), cell_id)
    if mode not in _CELL_EDITS or (before is None and mode != "insert"):
        return
    what, question = _CELL_EDITS[mode]
    action = f"{what} for cell {cell_id} {f'({kind})' if kind else ''}"
    body: dict[str, _Check] = {
        "replace": partial(_is_change, before or "", source),
        "insert": _same(_number_lines(source)),
        "delete": _same(_number_lines(before or "")),
    }
    yield ExpectedPrompt(
        "Edit notebook",
        _same(*(f"{name} {action}" for name in _path_names(path, cwd))),
        body[mode],
        f"Do you want to {question} {PurePath(path).name}?",
    )


_CELL_EDITS: Final = {
    "replace": ("Replace cell contents", "make this edit to"),
    "insert": ("Insert new cell", "insert this cell into"),
    "delete": ("Delete cell", "delete this cell from"),
}

_MCP: Final = "mcp__"
_NOT_IN_NAMES: Final = re.compile(r"[\W_]+")
_DATE: Final = re.compile(r"\([A-Z][a-z]{2}\d{1,2},\d{4},[^()]*\)")
_KEY: Final = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)


def _mcp(call: PendingCall, _cwd: str) -> Iterator[ExpectedPrompt]:
    """Expect the tool's own name: a title that its server gave it is not in the transcript."""
    name = _name_letters(f"{call.tool.removeprefix(_MCP)} Tool: (MCP)")

    def is_named(shown: str) -> bool:
        return _name_letters(shown) == name

    yield ExpectedPrompt("Tool use", is_named, partial(_is_mcp_input, call.input))


def _name_letters(text: str) -> str:
    """Return what the client keeps of a name: it writes create_issue as Create Issue."""
    return _NOT_IN_NAMES.sub("", text).casefold()


def _is_mcp_input(given: Mapping[str, object], shown: str) -> bool:
    rest = squeeze(shown)
    for name, value in given.items():
        # A long text, or one of several lines, is shown below its name without quotes.
        texts = [_script_text(value), value] if isinstance(value, str) else [_script_text(value)]
        starts = [squeeze(f"{name}: {text}") for text in texts]
        start = next((each for each in starts if rest.startswith(each)), None)
        if start is None:
            return False
        rest = rest.removeprefix(start)
        # The client explains a date.
        date = _DATE.match(rest)
        rest = rest[date.end() :] if date else rest
    return not rest


def _script_text(value: object) -> str:
    """Write a value as JavaScript does: the names in objects have no quotes."""
    if isinstance(value, dict):
        parts = (f"{_script_key(name)}: {_script_text(each)}" for name, each in value.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_script_text, value))}]"
    return msgspec.json.encode(value).decode()


def _script_key(name: str) -> str:
    return name if _KEY.fullmatch(name) else msgspec.json.encode(name).decode()


_EXPECTED: Final[Mapping[str, Callable[[PendingCall, str], Iterator[ExpectedPrompt]]]] = {
    "Agent": _agent,
    "Bash": _bash,
    "Edit": _edit,
    "Monitor": _monitor,
    "NotebookEdit": _edit_notebook,
    "Read": _read,
    "Skill": _skill,
    "WebFetch": _fetch,
    "WebSearch": _search,
    "Write": _write,
    _MCP: _mcp,
}
