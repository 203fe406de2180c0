"""The plugin's module as an installer would leave it: in a folder of the lab's, for one store."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ctxtop.collectors.plugin import hook
from ctxtop.collectors.plugin_files import compact_requests

if TYPE_CHECKING:
    from .lab import Lab

MODULE = Path(hook.__file__).parent / "shipped" / "hooks" / "register.js"


def install_module(lab: Lab) -> Path:
    """Make a plugin that has nothing but the module."""
    plugin = lab.root / "plugin"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / "hooks").mkdir()
    manifest = {"name": "ctxtop", "version": "1.0.0", "description": "Measures and compacts."}
    (plugin / ".claude-plugin" / "plugin.json").write_text(json.dumps(manifest), encoding="utf-8")
    hooks = {"hooks": {}, "modules": ["./register.js"]}
    (plugin / "hooks" / "hooks.json").write_text(json.dumps(hooks), encoding="utf-8")
    shutil.copy(MODULE, plugin / "hooks" / "register.js")
    store = str(lab.store)
    command = [sys.executable, "-I", "-m", "ctxtop.collectors.plugin.register_command", store]
    settings = {"command": command, "folder": compact_requests.request_folder(store)}
    (plugin / "hooks" / "register.json").write_text(json.dumps(settings), encoding="utf-8")
    return plugin
