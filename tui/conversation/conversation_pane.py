"""The Conversation tab: reads the transcript in parts as the user scrolls, folds, and searches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.timer import Timer
from textual.widget import Widget

from ...collectors.claude_code.transcripts.transcript_pages import (
    ConversationFile,
    PagesOutdatedError,
    TranscriptWindow,
    extend_earlier,
    extend_later,
    open_window,
)
from ...core.archive.archive_mode import ArchiveMode
from ...core.measure.conversation_steps import Step, StepKind
from ...core.model.problem import Problem
from ...core.summaries.key_messages import read_importance_settings
from ...core.transcript.sanitize import one_line
from ..base.background_queries import WorkerThread, query_store
from ..base.keymap import bind
from ..text.formats import percent
from ..text.text_lines import match_pattern
from ..widgets.controls import FilterBar
from ..widgets.conversation_view import ConversationView
from .conversation_reading import (
    ConversationPlace,
    LoadedConversation,
    ReadResult,
    ReadWindow,
    find_conversation,
    read_conversation,
    read_sizes,
)
from .conversation_rows import (
    FOLDABLE,
    NO_SIZES,
    ContextScale,
    ConversationLayout,
    ConversationRow,
    ConversationSizes,
    StepKey,
    step_label,
    step_text,
)
from .conversation_search import ConversationSearch
from .step_text_screen import StepTextPane, StepTextScreen

if TYPE_CHECKING:
    from ...collectors.claude_code.transcripts.transcript_search import TextMatch
    from ..app_state.dashboard import Dashboard


READING: Final = "reading the transcript …"
NOT_KEPT: Final = "archived: its summaries were kept, not the conversation"
REWRITTEN: Final = "the transcript was rewritten and is being re-read"
FRAME_CELLS: Final = 5  # of the pane beside a row: border, padding, scroll bar
STEP_TEXT_FROM_CELLS: Final = (
    150  # of the pane, from which there is room for a step's text beside it
)
CURSOR_SETTLE_S: Final = 0.12  # how long the cursor rests before a step's text is read
SIZES_EVERY_S: Final = 15.0  # at most: a long context takes a second or two to size
SEARCH_PLACEHOLDER: Final = "words in this conversation, then Enter; n and N go to other matches"
TEXT_ROW: Final = 1  # of a prompt or an answer: the row before it is empty


class ConversationPane(Vertical):
    """Shows one conversation; only the part around the rows in sight is in memory."""

    app: Dashboard

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("slash", "search", "Search", "search this conversation", "filter", key_display="/"),
        bind("o", "open_text", "Open", "open the full text of this step", "open_text"),
    ]

    note: reactive[str] = reactive("")  # what is searched for, or why nothing is shown

    def __init__(self, place: ConversationPlace, scale: ContextScale, title: str) -> None:
        super().__init__(id="conversation-pane")
        self.border_title = title
        self._place = place
        self._scale = scale
        self._layout: ConversationLayout | None = None
        self._loaded: LoadedConversation | None = None
        self._unfolded: frozenset[StepKey] = frozenset()
        self._is_reading = False
        self._has_news = False  # the file has grown while something else was read
        self.search: ConversationSearch | None = None  # until Esc ends it
        self._worker: WorkerThread | None = None
        """Its own thread: what fills a context is read for seconds in the app's."""
        self._sizer: WorkerThread | None = None  # likewise: scrolling does not wait for sizes
        self._sizes = NO_SIZES
        self._is_sizing = self._has_unsized = False
        self._settling: Timer | None = None  # until the step under the cursor is read

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield ConversationView(id="conversation")
            yield StepTextPane(id="step-text")

    def on_mount(self) -> None:
        self._worker = self._step_text.worker = WorkerThread("ctxtop conversation", self.app)
        self._sizer = WorkerThread("ctxtop sizes", self.app)
        width = self.screen.size.width - FRAME_CELLS
        self._layout = self._new_layout(max(1, width))
        self.go_to(self._place)

    def on_unmount(self) -> None:
        for worker in (self._worker, self._sizer):
            if worker is not None:
                worker.stop()

    @property
    def view(self) -> ConversationView:
        return self.query_one(ConversationView)

    @property
    def _step_text(self) -> StepTextPane:
        return self.query_one(StepTextPane)

    @property
    def place(self) -> ConversationPlace:
        """Whose conversation is shown, and where the cursor is."""
        step = self.step
        offset = step.offset if step else self._place.offset
        return ConversationPlace(self._place.session_id, self._place.agent_id, offset)

    @property
    def step(self) -> Step | None:
        """The step under the cursor."""
        row = self.view.row
        return row.step if isinstance(row, ConversationRow) else None

    # Reading.

    def go_to(self, place: ConversationPlace) -> None:
        """Show a place, of the same conversation or another one."""
        is_same = (place.session_id, place.agent_id) == (
            self._place.session_id,
            self._place.agent_id,
        )
        self._place = place
        if self._worker is None:
            return  # it is about to be mounted, and then goes to its place
        if place.words:
            self.end_search()
            self.view.mark_hits(match_pattern(place.words))
        loaded = self._loaded if is_same else None
        if loaded and place.offset is not None and self._holds(loaded.window, place.offset):
            self._show_offset(place.offset)
        elif loaded:
            self._reopen(place.offset)
        else:
            self._find_and_open(place)

    def _holds(self, window: TranscriptWindow, offset: int) -> bool:
        return window.start <= offset < window.end

    def _find_and_open(self, place: ConversationPlace) -> None:
        self.view.empty = READING
        # What is kept of another file's steps is found by their offsets.
        self._unfolded = frozenset()
        self._sizes = NO_SIZES
        if self._layout is not None:
            self._layout = self._new_layout(self._layout.width)
        projects, places = self.app.places.folder.projects, self.app.places
        prepare = self._prepare()

        def read() -> ReadResult:
            found = query_store(places, lambda db: find_conversation(db, projects, place))
            if isinstance(found, Problem):
                return found
            return prepare(found, lambda source: open_window(source, place.offset))

        self._submit(read, lambda: self._show_offset(place.offset))

    def _prepare(self) -> Callable[[ConversationFile, ReadWindow], ReadResult]:
        """Return what reads and lays out in the worker, with what is unfolded now."""
        return partial(read_conversation, self._layout, self._unfolded)

    def _read(self, read: ReadWindow, then: Callable[[], None] = lambda: None) -> None:
        """Read another part of the same file; a rewritten file is opened again."""
        loaded = self._loaded
        if loaded is None:
            return
        prepare, source, offset = self._prepare(), loaded.source, self.place.offset

        def work() -> ReadResult | None:
            try:
                return prepare(source, read)
            except PagesOutdatedError:
                return None

        def take(found: ReadResult | None) -> None:
            if found is None:
                self._unfolded = frozenset()
                self.note = REWRITTEN
                self._layout = self._new_layout(self.view.row_width)
                self._reopen(offset)

        self._submit(work, then, take)

    def _reopen(self, offset: int | None) -> None:
        self._read(lambda source: open_window(source, offset), lambda: self._show_offset(offset))

    def _submit(
        self,
        work: Callable[[], ReadResult | None],
        then: Callable[[], None],
        otherwise: Callable[[ReadResult | None], None] = lambda _: None,
    ) -> None:
        self._is_reading = True

        def take(found: ReadResult | None) -> None:
            if not self.is_attached:
                return
            self._is_reading = False
            if isinstance(found, LoadedConversation):
                self._loaded = found
                self._note_what_is_missing()
                self._draw()
                then()
                self._read_sizes()
            elif isinstance(found, Problem):
                self.note = one_line(str(found))
                self.view.empty = one_line(str(found))
            otherwise(found)
            if self._has_news and not self._is_reading:
                self.read_news()

        if self._worker is not None:
            self._worker.submit(work, take)

    def _read_sizes(self) -> None:
        """Read the sizes of what is shown, unless all are known; they are drawn once read."""
        loaded, session = self._loaded, self.app.find_session(self._place.session_id)
        if loaded is None or session is None or self._sizer is None:
            return
        if self._is_sizing:
            self._has_unsized = True
            return
        if self._sizes is not NO_SIZES and not self._sizes.miss(loaded.steps):
            return
        self._is_sizing, self._has_unsized = True, False
        place, places, counting = self._place, self.app.places, session.context.counting
        projects = places.folder.projects

        def work() -> ConversationSizes | Problem:
            return query_store(places, lambda db: read_sizes(db, projects, place, counting))

        def take(found: ConversationSizes | Problem | None) -> None:
            if not self.is_attached:
                return
            self.set_timer(SIZES_EVERY_S, self._size_again)
            is_same = (place.session_id, place.agent_id) == (
                self._place.session_id,
                self._place.agent_id,
            )
            is_new = found != self._sizes and is_same
            if is_new and isinstance(found, ConversationSizes) and self._layout:
                self._sizes = found
                self._layout = self._new_layout(self._layout.width)
                self._draw()

        self._sizer.submit(work, take)

    def _size_again(self) -> None:
        self._is_sizing = False
        if self._has_unsized:
            self._read_sizes()

    def _note_what_is_missing(self) -> None:
        session = self.app.find_session(self.place.session_id)
        if session is not None and session.archived == ArchiveMode.SUMMARIES:
            self.note = NOT_KEPT

    def read_news(self) -> None:
        """Read what was appended, if the end is shown; the cursor at the end follows it."""
        loaded = self._loaded
        if self._is_reading or loaded is None:
            self._has_news = True
            return
        self._has_news = False
        if loaded.window.has_later:
            return
        follows = self.view.is_at_end
        self._read(
            lambda source: extend_later(source, loaded.window),
            self.view.go_to_end if follows else lambda: None,
        )

    @on(ConversationView.MoreNeeded)
    def _read_more(self, event: ConversationView.MoreNeeded) -> None:
        self._extend(event.side)

    def _extend(self, side: int, then: Callable[[], None] = lambda: None) -> None:
        loaded = self._loaded
        if self._is_reading or loaded is None:
            return
        window = loaded.window
        if side < 0 and window.has_earlier:
            self._read(lambda source: extend_earlier(source, window), then)
        elif side > 0 and window.has_later:
            self._read(lambda source: extend_later(source, window), then)

    # Drawing.

    def on_resize(self) -> None:
        """Show the text of a step beside the conversation if it fits."""
        self.set_class(self.size.width >= STEP_TEXT_FROM_CELLS, "-broad")

    @on(ConversationView.Resized)
    def _wrap(self) -> None:
        """Wrap for another width."""
        width = self.view.row_width
        if self._layout is None or width == self._layout.width:
            return
        self._layout = self._new_layout(width)
        if (loaded := self._loaded) is not None:
            self._read(lambda _: loaded.window)

    def _new_layout(self, width: int) -> ConversationLayout:
        session = self.app.find_session(self._place.session_id)
        policy = self.app.feed.policies.for_project(session.project_root if session else None)
        importance = read_importance_settings(policy)
        return ConversationLayout(width, self._scale, importance, self._sizes)

    def set_scale(self, scale: ContextScale) -> None:
        """Compare context sizes with another window."""
        if scale != self._scale and self._layout is not None:
            self._scale = scale
            self._layout = self._new_layout(self._layout.width)
            self._draw()

    def _draw(self) -> None:
        loaded, layout = self._loaded, self._layout
        if loaded is not None and layout is not None:
            rows = layout.rows(loaded.steps, self._unfolded)
            self.view.empty = "" if rows else "this conversation has no messages yet"
            self.view.show(rows, loaded.window.complete_size)
            self._draw_position()

    def _show_offset(self, offset: int | None) -> None:
        if offset is None:
            self.view.go_to_end()
        else:
            self._go_to_row(self._row_with_words(offset) or self._row_at(offset))

    def _row_with_words(self, offset: int) -> int | None:
        """Find the first row of a line that has the words to go to."""
        pattern = match_pattern(self._place.words)
        if pattern is None or offset != self._place.offset:
            return None
        rows = ((n, row) for n, row in enumerate(self._rows) if row.step.offset == offset)
        return next((n for n, row in rows if pattern.search(row.content.plain)), None)

    def _row_at(self, offset: int) -> int:
        """Find the row of the step that holds a line, or of the last step before it."""
        rows = self._rows
        exact = (
            n for n, row in enumerate(rows) if offset in {row.step.offset, row.step.result_offset}
        )
        before = (n for n in range(len(rows) - 1, -1, -1) if rows[n].step.offset <= offset)
        found = next(exact, None)
        if found is None:
            found = next(before, 0)
            found -= rows[found].place if rows else 0
        return found

    @property
    def _rows(self) -> list[ConversationRow]:
        return [row for row in self.view.rows if isinstance(row, ConversationRow)]

    def _go_to_row(self, place: int) -> None:
        """Go to the first row of a step that says something."""
        rows = self._rows
        if place < len(rows) - 1 and not rows[place].content.plain.strip():
            place += TEXT_ROW
        self.view.go_to(place)

    @on(ConversationView.Moved)
    def _draw_position(self) -> None:
        loaded, step = self._loaded, self.step
        position = ""
        if loaded is not None and step is not None and loaded.window.complete_size:
            at_end = self.view.is_at_end and not loaded.window.has_later
            share = 1.0 if at_end else step.offset / loaded.window.complete_size
            position = f"at {percent(share)}"
        words = self.search.status_text(self._hit_place()) if self.search else self.note
        self.border_subtitle = Content(" · ".join(filter(None, (words, position))))
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(CURSOR_SETTLE_S, self._show_step_text)

    def _show_step_text(self) -> None:
        """Show the text of the cursor's step if it can be folded, else of the next one that can."""
        pane, loaded = self._step_text, self._loaded
        if loaded is None or not pane.display:
            return
        rows, cursor = self._rows, self.view.cursor
        nearest = (*rows[cursor:], *reversed(rows[:cursor]))
        step = next((row.step for row in nearest if row.step.kind in FOLDABLE), None)
        if step is not None:
            pane.border_title = one_line(step_label(step))
            pane.show_step(loaded.source, step, self.search.pattern if self.search else None)

    def watch_note(self) -> None:
        if self.is_mounted:
            self._draw_position()

    # What the user does.

    @on(ConversationView.Toggled)
    def _toggle(self) -> None:
        step = self.step
        if step is not None and step.kind in FOLDABLE:
            first = self.view.cursor - (self._rows[self.view.cursor].place)
            self._unfolded ^= {step.key}
            self.view.cursor = first
            self._draw()

    @on(ConversationView.EdgeChosen)
    def _go_to_edge(self, event: ConversationView.EdgeChosen) -> None:
        window = self._loaded.window if self._loaded else None
        if window is None:
            return
        if event.place == 0:
            if window.has_earlier:
                self._read(lambda source: open_window(source, 0), lambda: self.view.go_to(0))
            else:
                self.view.go_to(0)
        elif window.has_later:
            self._reopen(None)
        else:
            self.view.go_to_end()

    @on(ConversationView.PlaceChosen)
    def _go_to_share(self, event: ConversationView.PlaceChosen) -> None:
        if self._loaded is not None:
            self._reopen(round(event.share * self._loaded.window.complete_size))

    @on(ConversationView.StepAsked)
    def _go_to_next(self, event: ConversationView.StepAsked) -> None:
        if self.search is None:
            self._go_to_prompt(event.by)
        elif hit := self.search.next_hit(self._hit_place(), event.by):
            self._go_to_hit(hit)

    def _hit_place(self) -> StepKey | None:
        """Return the hit that was gone to while the cursor is on its step, else the step."""
        step, hit = self.step, self.search.current if self.search else None
        if step is None or (hit and hit[0] in {step.offset, step.result_offset}):
            return hit
        return step.key

    def _go_to_prompt(self, by: int) -> None:
        """Go to the next or previous prompt, reading on if it is not in memory yet."""
        rows, cursor = self._rows, self.view.cursor
        here = self.step
        places = range(cursor + 1, len(rows)) if by > 0 else range(cursor - 1, -1, -1)
        for place in places:
            row = rows[place]
            if row.step.kind is StepKind.PROMPT and row.place == TEXT_ROW and row.step != here:
                self.view.go_to(place)
                return
        window = self._loaded.window if self._loaded else None
        if window and (window.has_later if by > 0 else window.has_earlier):
            self._extend(by, lambda: self._go_to_prompt(by))

    def action_open_text(self) -> None:
        step, loaded = self.step, self._loaded
        if step is not None and loaded is not None:
            pattern = self.search.pattern if self.search else None
            crumbs = (*self.screen.crumbs[1:], step_label(step))  # type: ignore[attr-defined]
            self.app.push_screen(
                StepTextScreen(
                    loaded.source, step, pattern, crumbs=crumbs, session_id=self._place.session_id
                )
            )

    def copy_text(self) -> tuple[str, str] | None:
        """Return the text of the step to copy, and a name for it."""
        step = self.step
        return (step_text(step), step_label(step)) if step else None

    # Searching.

    async def action_search(self) -> None:
        if not self.query(FilterBar):
            await self.mount(FilterBar(SEARCH_PLACEHOLDER))
        self.query_one(FilterBar).open(self.search.words if self.search else "")

    def _close_search_bar(self) -> None:
        for bar in self.query(FilterBar):
            bar.display = False
        self.view.focus()

    @on(FilterBar.Typed)
    def _ignore_typed(self, event: FilterBar.Typed) -> None:
        """The search begins with Enter: it reads the file."""
        event.stop()

    @on(FilterBar.Done)
    def _start_search(self, event: FilterBar.Done) -> None:
        event.stop()
        words = one_line(self.query_one(FilterBar).value)
        self._close_search_bar()
        if not words:
            self.end_search()
            return
        if self.search is not None:
            self.search.stop()
        if self._loaded is not None and self._worker is not None:
            self.search = ConversationSearch(
                words, self._loaded.source, self._next_line(), self._worker, self._take_hits
            )
            self.view.mark_hits(self.search.pattern)
            self.search.start()
            self._draw_position()

    def _next_line(self) -> int | None:
        """Return where the line after the cursor's step begins; None if that is the last one."""
        step = self.step
        later = (row.step.offset for row in self._rows[self.view.cursor :])
        return next((each for each in later if step and each > step.offset), None)

    def _take_hits(self, search: ConversationSearch, first: TextMatch | None) -> None:
        if search is self.search and self.is_attached:
            if first is not None:
                self._go_to_hit(first)
            self._draw_position()

    def _go_to_hit(self, hit: TextMatch) -> None:
        loaded = self._loaded
        if loaded is None:
            return
        if self._holds(loaded.window, hit.offset):
            self._show_hit(hit)
        else:
            self._read(lambda source: open_window(source, hit.offset), lambda: self._show_hit(hit))

    def _show_hit(self, hit: TextMatch) -> None:
        """Put the cursor on the first row of a step that matches, unfolding it if it is folded."""
        search = self.search
        if search is None:
            return
        search.current = (hit.offset, hit.part)
        place = self._matching_row(hit)
        if place is None:
            self._go_to_row(self._row_at(hit.offset))
            return
        step = self._rows[place].step
        folded = step.kind in FOLDABLE and step.key not in self._unfolded
        if folded and not search.pattern.search(self._rows[place].content.plain):
            self._unfolded |= {step.key}
            self._draw()
            place = self._matching_row(hit) or place
        self.view.go_to(place)

    def _matching_row(self, hit: TextMatch) -> int | None:
        search = self.search
        own = [
            n
            for n, row in enumerate(self._rows)
            if row.step.key == (hit.offset, hit.part) or row.step.result_offset == hit.offset
        ]
        if not own or search is None:
            return None
        matching = (n for n in own if search.pattern.search(self._rows[n].content.plain))
        return next(matching, own[0])

    def end_search(self) -> bool:
        """End the search; returns False if there is none."""
        if self.search is None:
            return False
        self.search.stop()
        self.search = None
        self._close_search_bar()
        self.view.mark_hits(None)
        self._draw_position()
        return True

    @on(FilterBar.Cleared)
    def _clear_search(self, event: FilterBar.Cleared) -> None:
        event.stop()
        self._close_search_bar()
        self.end_search()


def show_conversation(container: Widget, place: ConversationPlace, scale: ContextScale) -> None:
    """Show a place in a container's pane, which is added if there is none."""
    pane = next(iter(container.query(ConversationPane)), None)
    if pane is None:
        container.mount(ConversationPane(place, scale, "Conversation"))
    else:
        pane.set_scale(scale)
        pane.go_to(place)
