"""The user's folders are those of platformdirs, which is not loaded for the usual ones."""

import subprocess
import sys

import platformdirs
import pytest
from ctxtop.core.files.user_folders import user_config_folder, user_state_folder

VARIABLES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")


@pytest.mark.parametrize("home", [None, "", "/", "/home/dev", "/home/dev/", "dev", "~"])
@pytest.mark.parametrize("chosen", [None, "", "/var/of dev", "/var/dev//", "relative", "~/x"])
def test_they_are_those_of_platformdirs(
    monkeypatch: pytest.MonkeyPatch, home: str | None, chosen: str | None
) -> None:
    for name, value in zip(VARIABLES, (home, chosen, chosen), strict=True):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert user_config_folder() == platformdirs.user_config_path("ctxtop")
    assert user_state_folder() == platformdirs.user_state_path("ctxtop")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems ask platformdirs")
def test_the_usual_folders_load_no_library() -> None:
    code = (
        "import sys; from ctxtop.core.files.user_folders import user_state_folder;"
        "user_state_folder(); print('platformdirs' in sys.modules)"
    )
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "False\n"
