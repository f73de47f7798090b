"""Renders whole pages: the workspace, its graph, and one view; expensive parts are cached for a short time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.errors import HeadraceError, NotFoundError, did_you_mean
from headrace.format import iso
from headrace.html import Html, breakable, data, join, tag
from headrace.lake.dead_letters import DeadLetterReason
from headrace.serve.explanation import CellQuestion
from headrace.serve.question import Question
from headrace.server.status import LogicalStatus, TableStatus, ViewStatus, WorkspaceStatus
from headrace.web.page import first_steps
from headrace.web.page.cell_page import explanation_section
from headrace.web.page.controls_form import controls
from headrace.web.page.delivery_sections import alerts_badge, alerts_section, sinks_table
from headrace.web.page.graph_page import graph_svg
from headrace.web.page.layers_section import audits_table, versions_table
from headrace.web.page.logical_view_sections import logical_card, logical_rows, logical_table
from headrace.web.page.page_frame import brand, document
from headrace.web.page.page_sections import (
    dead_letters,
    state_line,
    streams_table,
    subscriptions_table,
    tables_table,
    trouble,
    view_card,
    view_inside,
    view_rows,
    views_table,
)
from headrace.web.page.page_selection import PageSelection, view_path
from headrace.web.page.view_content import ContentReader, ViewContent

if TYPE_CHECKING:
    from headrace.api.server_verbs import ServerVerbs


KEEP_S = 1.0
SHARE = 10  # a value is kept this many times as long as it took, so that creating it takes at most a tenth of a core
MOST = 64

Value = TypeVar("Value")


class _Entry(Generic[Value]):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.until = 0.0
        self.value: Value | None = None


class Cache(Generic[Value]):
    """A cache that creates at most one value per key at a time; concurrent callers wait for it and share it."""

    def __init__(
        self,
        keep_s: float = KEEP_S,
        now: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._keep_s = keep_s
        self._now = now
        self._cpu_s = cpu_s  # CPU time of this thread; time spent waiting does not count
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[Value]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The cached value, or a new one if it has expired."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if len(self._entries) > MOST:
                self._entries.popitem(last=False)
        with entry.lock:
            if entry.value is None or self._now() >= entry.until:
                before = self._cpu_s()
                entry.value = make()
                entry.until = self._now() + max(self._keep_s, (self._cpu_s() - before) * SHARE)
            return entry.value


LIVE_VIEWS = 12  # views whose rows and chart are on the first page; the others have only their own pages
ROWS, WINDOWS = 50, 60
REASONS_S = 15.0
COMPUTED_S = 5.0  # how long the rows of a logical view are shown: each evaluation takes a process
FORM_S = 60  # reload interval of a page with a form without JavaScript; a reload loses what is being typed
MORE_ROWS, MORE_WINDOWS = 200, 180
MOST_SORTED = 20_000  # rows that are read to be sorted, on the page of a view

LEGEND = "Each arrow leads from what is read to its reader. Dashed: made when it is read, stored nowhere."

Page = tuple[int, str]  # status and body


class WorkspacePage:
    """Renders pages from the status and the answers of a server."""

    def __init__(self, verbs: ServerVerbs, most_sorted: int = MOST_SORTED) -> None:
        self._verbs = verbs
        self._reasons: Cache[list[DeadLetterReason]] = Cache(REASONS_S)
        self._computed: Cache[Html] = Cache(COMPUTED_S)
        self._tables: Cache[list[TableStatus]] = Cache()
        self._inside: dict[str, tuple[Any, Html]] = {}
        self._few = ContentReader(verbs.ask, rows=ROWS, windows=WINDOWS, most=ROWS * 4)
        self._many = ContentReader(verbs.ask, rows=MORE_ROWS, windows=MORE_WINDOWS, most=most_sorted)

    def workspace(self) -> Page:
        """The page of the workspace."""
        at = datetime.now(UTC)
        status = self._verbs.status()
        tables = self._tables.get(None, self._verbs.tables)
        live = tag(
            "main",
            state_line(status, self._verbs.runtime.monitor.health().reason, at),
            tag("p", tag("a", "Graph: what reads what", href="/graph")) if status.streams else None,
            trouble(status),
            _section("Streams", self._streams(status)),
            _section("Tables", self._tables_with_letters(tables)) if tables else None,
            _section("Views", self._views(status, {each.name for each in tables}, at)) if status.streams else None,
            _section("Logical views", logical_table(status.logical)) if status.logical else None,
            _section("Sinks", sinks_table(status.sinks)) if status.sinks else None,
            _section("Subscriptions", subscriptions_table(status.subscriptions)) if status.subscriptions else None,
            _section("Alerts", alerts_section(status.alerts)) if status.alerts else None,
            id="live",
            tabindex=-1,
        )
        return 200, document(f"{status.workspace} · Headrace", self._top(), live, self._foot(), live=at)

    def graph(self) -> Page:
        """Render the graph of definitions."""
        at, workspace = datetime.now(UTC), self._verbs.runtime.workspace.name
        graph = self._verbs.graph()
        picture = tag("div", graph_svg(graph), class_="scroll", role="region", aria_label="graph", tabindex=0)
        main = tag("main", tag("h1", "Graph"), picture, tag("p", LEGEND, class_="quiet"), id="live", tabindex=-1)
        crumb = [" / ", tag("a", data(workspace), href="/"), " / graph"]
        return 200, document(f"Graph · {workspace} · Headrace", self._top(crumb), main, self._foot(), live=at)

    def view(self, name: str, parameters: Sequence[tuple[str, str]]) -> Page:
        """One view: more rows in any order, a larger chart, a choice of keys, range, column and series."""
        at, status = datetime.now(UTC), 200
        views = {view.name: view for view in self._verbs.views()}
        if name not in views:
            logical = {view.name: view for view in self._verbs.logical_views()}
            if name in logical:
                return self._logical(logical[name], at)
            hint = did_you_mean(name, [*views, *logical])
            return 404, self._failure(NotFoundError(f"view '{name}' does not exist", fix=hint), at)
        view = views[name]
        selection, content, problem = PageSelection(name), None, None
        try:
            selection = PageSelection.read(view, parameters)
            content = self._many.read(view, selection)
        except HeadraceError as error:
            status, problem = error.http_status, _problem(error, name if parameters else None)
        stalled = tag("p", data(view.stalled, 2000), class_="bad") if view.stalled else None
        live = tag(
            "main",
            view_card(view, None, at, level="h1"),
            stalled,
            controls(view, selection),
            problem,
            view_rows(view, content, selection) if content else None,
            _older(selection, content) if content else None,
            tag("p", "As JSON: ", tag("code", f"GET /v1{view_path(name)}"), class_="quiet"),
            self._versions(name),
            audits_table(view),
            id="live",
            tabindex=-1,
        )
        title = f"{name} · {self._verbs.runtime.workspace.name} · Headrace"
        crumb = [" / ", tag("a", data(self._verbs.runtime.workspace.name), href="/"), " / ", breakable(name)]
        return status, document(title, self._top(crumb), live, self._foot(), live=at, reload_s=FORM_S)

    def _logical(self, view: LogicalStatus, at: datetime) -> Page:
        """One logical view, evaluated for the page."""
        status, name = 200, view.name
        try:
            question = Question(name, limit=MORE_ROWS, newest_first=True)
            rows = self._computed.get((name, view.sql), lambda: logical_rows(view, self._verbs.ask(question)))
        except HeadraceError as error:
            status, rows = error.http_status, _problem(error, None)
        json = tag("p", "As JSON: ", tag("code", f"GET /v1{view_path(name)}"), class_="quiet")
        live = tag("main", logical_card(view), rows, json, id="live", tabindex=-1)
        title = f"{name} · {self._verbs.runtime.workspace.name} · Headrace"
        crumb = [" / ", tag("a", data(self._verbs.runtime.workspace.name), href="/"), " / ", breakable(name)]
        return status, document(title, self._top(crumb), live, self._foot(), live=at)

    def explain(self, name: str, parameters: Sequence[tuple[str, str]]) -> Page:
        """The events behind one cell of a view."""
        status = 200
        try:
            inside = explanation_section(view_path(name), self._verbs.explain(CellQuestion.from_text(name, parameters)))
        except HeadraceError as error:
            status, inside = error.http_status, tag("p", data(str(error), 500), class_="bad", role="alert")
        workspace = self._verbs.runtime.workspace.name
        crumb = [" / ", tag("a", data(workspace), href="/"), " / ", tag("a", breakable(name), href=view_path(name))]
        main = tag("main", inside, id="live", tabindex=-1)
        return status, document(
            f"{name} · {workspace} · Headrace", self._top([*crumb, " / explain"]), main, self._foot()
        )

    def _versions(self, name: str) -> Html | None:
        try:
            return versions_table(self._verbs.versions(name))
        except HeadraceError:
            return None  # the view was dropped between two reads

    def _streams(self, status: WorkspaceStatus) -> Html:
        streams, folder = [stream for stream in status.streams if not stream.table], status.folder
        if not streams:
            return first_steps.define_stream(folder)
        token = self._verbs.runtime.workspace.settings.token is not None
        base = [stream for stream in streams if not stream.derived_from]  # to others nothing can be sent
        quiet = [stream for stream in base if not stream.events and not stream.backlog_bytes]
        hint = [first_steps.send_events(status.url, folder, stream, token=token) for stream in quiet[:1]]
        dead = [dead_letters(s.name, s.dead_letters, self._why(s.name)) for s in streams if s.dead_letters]
        return join(streams_table(streams), dead, hint)

    def _why(self, stream: str) -> list[DeadLetterReason]:
        """The reasons of a stream's dead letters; this reads files, so it is cached longer than the rest."""
        try:
            return self._reasons.get(stream, partial(self._verbs.dead_letter_reasons, stream))
        except HeadraceError:
            return []  # the stream was dropped between two reads

    def _tables_with_letters(self, tables: Sequence[TableStatus]) -> Html:
        dead = [dead_letters(t.name, t.dead_letters, self._why(t.name)) for t in tables if t.dead_letters]
        return join(tables_table(tables), dead)

    def _views(self, status: WorkspaceStatus, tables: Collection[str], at: datetime) -> Html:
        views = [view for view in status.views if view.name not in tables]
        if not views:
            return first_steps.define_view(status.folder, status.streams[0])
        cards = [self._card(view, at) for view in views[:LIVE_VIEWS]]
        others = len(views) - len(cards)
        note = f"Rows and charts of {others} more views are on their own pages." if others > 0 else None
        return join(views_table(views), tag("div", cards, class_="cards"), tag("p", note) if note else None)

    def _card(self, view: ViewStatus, now: datetime) -> Html:
        """A view's card. Its rows change only with its commits, so they are read again only after a commit."""
        state = (view.version, view.applied_to, view.newest_event)
        cached_state, inside = self._inside.get(view.name, (None, None))
        if cached_state != state or inside is None:
            try:
                inside = view_inside(view, self._few.read(view))
            except HeadraceError as error:  # it was dropped between two reads, or has no version yet
                return view_card(view, tag("p", str(error), class_="quiet"), now)
            self._inside[view.name] = (state, inside)
        return view_card(view, inside, now)

    def _failure(self, error: HeadraceError, at: datetime) -> str:
        main = tag("main", tag("h1", "Not found"), tag("p", data(str(error), 500)), id="live", tabindex=-1)
        return document("Not found · Headrace", self._top(), main, self._foot())

    def _top(self, crumb: Any = None) -> Html:
        pause = tag("button", "Pause", id="pause", type="button", hidden=True, aria_pressed="false")
        badge = tag("span", alerts_badge(self._verbs.alerts()), id="badge")
        return tag("div", brand(crumb), badge, pause, class_="top")

    def _foot(self) -> Html:
        links = [tag("a", "metrics", href="/metrics"), " · ", tag("a", "HTTP API", href="/openapi.json")]
        if self._verbs.runtime.workspace.settings.token is None:
            return tag("footer", links)
        return tag("footer", tag("form", tag("button", "Sign out"), method="post", action="/logout"))


def _section(title: str, content: Html) -> Html:
    ident = title.lower().replace(" ", "-")
    return tag("section", tag("h2", title, id=ident), content, aria_labelledby=ident)


def _problem(error: HeadraceError, view: str | None) -> Html:
    """The reason why there are no rows, with a link to the view without parameters."""
    link = tag("a", "Show the view without parameters", href=view_path(view), data_stay=True) if view else None
    return tag("p", data(str(error), 1000), ". " if link else None, link, class_="bad", role="alert")


def _older(selection: PageSelection, content: ViewContent) -> Html | None:
    if content.older is None:
        return None
    path = selection.with_(end=iso(content.older)).path("rows")
    return tag("p", tag("a", "Older windows", href=path, data_stay=True))
