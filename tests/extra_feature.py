"""A copy of what the hook needs, with one more feature in it and without redaction."""

from __future__ import annotations

from pathlib import Path

from ctxtop.collectors.plugin import hook
from ctxtop.collectors.plugin_files import plugin_log
from ctxtop.core.transcript import sanitize


def feature(tmp_path: Path, body: str) -> str:
    """A copy of the package with one more feature, as its folder; the name is `extra`."""
    top = tmp_path / "site"
    package = top / "ctxtop" / "collectors" / "plugin"
    files = package.with_name("plugin_files")
    (package / "answers").mkdir(parents=True)
    files.mkdir()
    for folder in (top / "ctxtop", package.parent, package / "answers"):
        (folder / "__init__.py").write_text("")
    for path, copy in ((hook.__file__, package), (plugin_log.__file__, files)):
        for source in Path(path).parent.glob("*.py"):
            (copy / source.name).write_bytes(source.read_bytes())
    # The rules of redaction need more than the standard library, which is all that `-S` leaves.
    transcript = top / "ctxtop" / "core" / "transcript"
    transcript.mkdir(parents=True)
    (transcript / "sanitize.py").write_bytes(Path(sanitize.__file__).read_bytes())
    (transcript / "redaction.py").write_text("def redact(text):\n    return text\n")
    (package / "answers" / "extra.py").write_text(
        f"from ..hook_answer import HookReply as Reply\ndef answer(call):\n    {body}\n"
    )
    return str(package / "run.py")
