"""A copy of what the hook needs, with one more feature in it."""

from __future__ import annotations

from pathlib import Path

from ctxtop.collectors.plugin import hook


def feature(tmp_path: Path, body: str) -> str:
    """A copy of the package with one more feature, as its folder; the name is `extra`."""
    top = tmp_path / "site"
    package = top / "ctxtop" / "collectors" / "plugin"
    (package / "answers").mkdir(parents=True)
    for folder in (top / "ctxtop", package.parent, package / "answers"):
        (folder / "__init__.py").write_text("")
    for source in Path(hook.__file__).parent.glob("*.py"):
        (package / source.name).write_bytes(source.read_bytes())
    (package / "answers" / "extra.py").write_text(
        f"from ..call import Reply\ndef answer(call):\n    {body}\n"
    )
    return str(package / "run.py")
