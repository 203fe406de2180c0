"""From a value that a person types to the file that says it: checked, shown, asked, written."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ...collectors.policy_writing import Change, Changes, difference
from ..formats import one_line
from ..policy_files import Refused, attempted, files_of, make_change, plan, roots_of
from ..policy_rows import difference_lines, why_fixed
from .confirm import ConfirmScreen
from .value import ValueScreen

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...collectors.folder import Trouble
    from ...collectors.policy_writing import Written
    from ...core.policy.policy import Resolved
    from ..app import CtxtopApp
    from .value import Wish

TOLD_S: Final = 8.0
"""A line that says why nothing was written is read whole."""


class PolicyChange:
    """One change, step by step; files are read and written in the thread for that."""

    def __init__(self, app: CtxtopApp, folder: str | None, done: Callable[[], None]) -> None:
        """Change the policy of all, or of a folder; `done` is called when a file was written."""
        self._app: Final = app
        self._changes: Final = Changes(app.places.store)
        self._files: Final = files_of(app.places.policy, folder)
        self._done: Final = done

    def edit(self, found: Resolved) -> None:
        """Let a person type another value."""
        why = why_fixed(found)
        if why or not self._files:
            self._show_refusal(why or "this run has no file for what you set")
            return
        self._app.push_screen(ValueScreen(found, self._files), partial(self._plan, found.key.name))

    def undo_last(self, last: Written | None) -> None:
        """Work out how the newest change is taken back."""
        if last is None:
            self._show_refusal("nothing was changed here that could be taken back")
            return
        roots = roots_of(last, self._files)
        back = partial(self._changes.undo, last)
        self._app.file_worker.submit(
            partial(attempted, partial(self._changes.plan_undo, last, roots)),
            partial(self._confirm, "Take it back", back),
        )

    def _plan(self, key: str, wish: Wish | None) -> None:
        if wish is not None:
            self._app.file_worker.submit(
                partial(attempted, partial(plan, wish.file, key, wish.value)),
                partial(self._confirm, "Write the file", self._changes.apply),
            )

    def _confirm(
        self,
        action: str,
        write: Callable[[Change], None],
        found: Change | Refused | Trouble,
    ) -> None:
        if not isinstance(found, Change):
            self._show_refusal(found.message if isinstance(found, Refused) else str(found))
            return
        path = str(found.file.path)
        if found.is_empty:
            self._show_refusal(f"{path} says so already: nothing is written")
            return
        what = difference_lines(path, difference(found))
        self._app.push_screen(
            ConfirmScreen(f"change {found.key}", what, action), partial(self._write, found, write)
        )

    def _write(self, change: Change, write: Callable[[Change], None], yes: bool | None) -> None:  # noqa: FBT001 -- the answer
        if yes:
            self._app.file_worker.submit(
                partial(attempted, partial(make_change, self._app.places.policy, change, write)),
                partial(self._finish, change),
            )

    def _finish(self, change: Change, found: Refused | Trouble | None) -> None:
        if found is not None:
            self._show_refusal(found.message if isinstance(found, Refused) else str(found))
            return
        self._app.feed.reload_policy()
        words = f"{change.key} in {one_line(str(change.file.path))}"
        self._app.notify(words, title="the policy was changed", markup=False)
        self._done()

    def _show_refusal(self, why: str) -> None:
        words = one_line(why)
        self._app.notify(
            words, title="nothing was changed", severity="warning", timeout=TOLD_S, markup=False
        )
