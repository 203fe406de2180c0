"""cozempic as a peer to compare with: installed for the run, and kept from the network and home.

Its switches (peers.md 1.1): no hooks into settings (COZEMPIC_NO_GLOBAL_INIT, …_NO_AUTO_INIT), no
counter (…_NO_TELEMETRY), no update of itself (…_NO_AUTO_UPDATE), no receipts (…_NO_RECEIPTS).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from .replay import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

VERSION: Final = "1.8.39"
PRESCRIPTIONS: Final = ("gentle", "standard", "aggressive")
INSTALL_SECONDS: Final = 180
TREAT_SECONDS: Final = 120
"""It takes a second; a hang must not hold the benchmark."""

_OFF: Final = {
    "COZEMPIC_NO_GLOBAL_INIT": "1",
    "COZEMPIC_NO_AUTO_INIT": "1",
    "COZEMPIC_NO_TELEMETRY": "1",
    "COZEMPIC_NO_AUTO_UPDATE": "1",
    "COZEMPIC_NO_RECEIPTS": "1",
}


class Cozempic:
    """Runs its prescriptions on copies, in a home of its own."""

    def __init__(self, folder: Path) -> None:
        """Install it; raises RefusedError where that fails."""
        self._folder: Final = folder
        self._home: Final = folder / "home"
        self._home.mkdir(parents=True)
        python = str(folder / "venv" / "bin" / "python")
        install = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        for command in (
            [sys.executable, "-m", "venv", str(folder / "venv")],
            [*install, f"cozempic=={VERSION}"],
        ):
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)
            except (OSError, subprocess.SubprocessError) as error:
                raise RefusedError(f"cozempic {VERSION} cannot be installed: {error}") from error

    def treat(self, path: Path, prescription: str) -> bytes:
        """Return the transcript after a prescription; raises RefusedError if it fails."""
        copy = self._folder / "copy" / path.name
        shutil.rmtree(copy.parent, ignore_errors=True)
        copy.parent.mkdir()
        copy.write_bytes(path.read_bytes())
        program = str(self._folder / "venv" / "bin" / "cozempic")
        command = [program, "treat", str(copy), "-rx", prescription, "--execute"]
        home = {"HOME": str(self._home), "CLAUDE_CONFIG_DIR": str(self._home / ".claude")}
        environment = {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"} | _OFF | home
        try:
            subprocess.run(
                command,
                check=True,
                capture_output=True,
                timeout=TREAT_SECONDS,
                env=environment,
                cwd=copy.parent,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise RefusedError(f"{prescription}: {error}") from error
        return copy.read_bytes()
