"""Runs tests: each against the definitions folder, with its own changes to it, by an engine."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headrace.define.catalog import Catalog, load, load_changed
from headrace.errors import BadTestError, DefinitionError, HeadraceError, QuestionError, did_you_mean
from headrace.language.source_text import SourceText, each
from headrace.plan.differences import compare
from headrace.plan.planned_change import Plan, PlannedChange
from headrace.serve.question import Question
from headrace.spark.failures import one_line
from headrace.tools.testing.comparison import Mismatch, compare_errors, compare_letters, compare_outcome
from headrace.tools.testing.direct_engine import Commits, Engine, NeedsSparkError, Request
from headrace.tools.testing.given_events import arrange, in_order, read_given
from headrace.tools.testing.written_tests import DefinitionTest, Expected
from headrace.tools.testing.yaml_file import Items, Text, YamlFields, YamlNode

VIEW, KEY = "view", "key"
# A test has no earlier pages and no past.
_OTHER = ("cls", VIEW, "cursor", "version_as_of", "timestamp_as_of")
PARAMETERS = (VIEW, *(name for name in inspect.signature(Question.of).parameters if name not in _OTHER))
ORDERS = ("order", "order_by")  # of these, the order of rows is compared
State = Literal["passed", "failed", "skipped", "bad"]


@dataclass(frozen=True)
class RunResult:
    """The result of a test. `error` says why it is skipped, or what is wrong with the test itself."""

    test: DefinitionTest
    state: State
    seconds: float
    differences: tuple[Mismatch, ...] = ()
    error: HeadraceError | None = None
    notes: tuple[str, ...] = ()


class Runner:
    """Runs tests of one definitions folder. Raises DefinitionError if that has mistakes."""

    def __init__(self, definitions: Path, engine: Engine) -> None:
        self._definitions = definitions
        self._engine = engine
        self._catalog = load(definitions)

    def run(self, test: DefinitionTest, folder: Path) -> RunResult:
        """Run one. Files with events are relative to the folder."""
        began = time.perf_counter()
        notes: list[str] = []
        state: State = "passed"
        differences: list[Mismatch] = []
        error: HeadraceError | None = None
        try:
            differences = self._run(test, folder, notes)
            state = "failed" if differences else "passed"
        except NeedsSparkError as reason:
            state, error = "skipped", reason
        except BadTestError as mistake:
            state, error = "bad", mistake
        except HeadraceError as failure:
            state, differences = "failed", [Mismatch(str(failure))]
        except Exception as failure:  # of an engine: the other tests continue
            message = f"{type(failure).__name__}: {one_line(failure)}"
            state, differences = "failed", [Mismatch(f"{message}; please report it")]
        return RunResult(test, state, time.perf_counter() - began, tuple(differences), error, tuple(notes))

    def _run(self, test: DefinitionTest, folder: Path, notes: list[str]) -> list[Mismatch]:
        expected, catalog = test.expected, self._catalog
        plan = Plan()
        if test.definitions is not None:
            try:
                catalog = load_changed(self._definitions, _source(test.definitions))
                plan = compare(self._catalog, catalog)
            except DefinitionError as error:
                return compare_errors(expected.errors or (), [str(one) for one in each(error)])
        differences = _compare_changes(expected, plan, catalog)
        if test.ask is None or expected.errors is not None or expected.changes is not None:
            refused = [f"{change.what} '{change.name}': {change.reason}" for change in plan.refused]
            expects_refusal = "refused" in [word.value for word in (expected.changes or {}).values()]
            if refused and not (expected.errors is None and expects_refusal):
                return differences + compare_errors(expected.errors or (), refused)
        commits = self._commits(test, catalog, folder, notes)
        return differences + self._ask(test, catalog, commits)

    def _commits(self, test: DefinitionTest, catalog: Catalog, folder: Path, notes: list[str]) -> Commits:
        events_of = {}
        for name, (where, events) in test.events.items():
            _check_given(name, where, catalog)
            events_of[name] = read_given(catalog.streams[name], events, folder)
            notes += events_of[name].notes
        return arrange([events_of[name] for name in in_order(catalog, events_of)])

    def _ask(self, test: DefinitionTest, catalog: Catalog, commits: Commits) -> list[Mismatch]:
        expected = test.expected
        if test.ask is None:
            outcome = self._engine.run(catalog, commits, None)
            differences = compare_letters(expected.dead_letters, outcome.letters)
            return differences + compare_errors(expected.errors or (), [])
        try:
            request = read_question(test.ask, catalog)
            outcome = self._engine.run(catalog, commits, request)
        except DefinitionError as error:
            return compare_errors(expected.errors or (), [str(error)])
        except QuestionError as error:
            if expected.errors is not None:
                return compare_errors(expected.errors, [str(error)])
            raise test.ask.error(error.message, found=error.found, expected=error.expected, fix=error.fix) from error
        view = catalog.views.get(request.question.view)
        keys = [key.name for key in view.keys] if view else []
        differences = compare_outcome(expected, outcome, keys, expected.ordered or is_ordered(test.ask))
        return differences + compare_errors(expected.errors or (), [])


def _source(definitions: Text) -> SourceText:
    """The SQL as it stands in the file, so that mistakes have their line and column there."""
    if definitions.block is None:
        return SourceText(definitions.value, definitions.source.name)
    first, end = definitions.block
    lines = definitions.source.text.splitlines()[first:end]
    return SourceText("\n" * first + "\n".join(lines) + "\n", definitions.source.name)


def _check_given(name: str, where: Text, catalog: Catalog) -> None:
    """Raise BadTestError for what has no events of its own."""
    table = catalog.tables.get(name)
    relation = table.relation if table else catalog.streams[name].relation if name in catalog.streams else None
    if relation is not None:
        what, rows = ("table", "rows are") if table else ("stream", "events are")
        raise where.error(
            f"{what} '{name}' is derived: its {rows} made of those of {', '.join(relation.streams)}",
            fix=f"give events of {' or '.join(relation.streams)}",
        )
    if name not in catalog.streams:
        raise where.error(
            f"stream '{name}' does not exist",
            expected=", ".join(catalog.base_streams) or "a stream: the definitions have none",
            fix=did_you_mean(name, catalog.base_streams) or _instead_of_view(name, catalog),
        )


def _instead_of_view(name: str, catalog: Catalog) -> str | None:
    if name not in catalog.views:
        return None
    return f"'{name}' is a view; give events of {' or '.join(catalog.views[name].streams)}"


def is_ordered(ask: YamlFields | Text) -> bool:
    """Return whether the question asks for an order."""
    return isinstance(ask, YamlFields) and any(name in ask.values for name in ORDERS)


def read_question(ask: YamlFields | Text, catalog: Catalog) -> Request:
    """The question, with the parameters of `headrace ask`. Raises QuestionError for values that make no sense."""
    fields = ask.values if isinstance(ask, YamlFields) else {VIEW: ask}
    if isinstance(ask, YamlFields):
        ask.check_names("a query", PARAMETERS)
    view = fields.get(VIEW)
    if not isinstance(view, Text) or not view.value:
        raise (view or ask).error("a query names a view", expected="such as {view: traffic}")
    known = [*catalog.views, *catalog.logical]
    if view.value not in known:
        hint = did_you_mean(view.value, known)
        if hint is None and view.value in catalog.streams:
            hint = f"'{view.value}' is a stream; ask a view that reads it"
        raise view.error(f"view '{view.value}' does not exist", expected=", ".join(known) or "a view", fix=hint)
    options = {name: _option(name, value) for name, value in fields.items() if name != VIEW}
    return Request(Question.of(view.value, **options), whole="limit" not in options)


def _option(name: str, node: YamlNode) -> Any:
    """A parameter. The values of keys stay texts, which are read as the type of the key."""
    if name != KEY:
        return node.literal()
    if isinstance(node, YamlFields):
        return {key: _option(name, value) for key, value in node.values.items()}
    if isinstance(node, Items):
        return [_option(name, item) for item in node.items]
    assert isinstance(node, Text), "there are three kinds"
    return None if node.is_null else node.value


def _compare_changes(expected: Expected, plan: Plan, catalog: Catalog) -> list[Mismatch]:
    differences = []
    words = {change.name: _word(change) for change in plan.changes}
    for name, word in (expected.changes or {}).items():
        if name not in words and name not in catalog.streams and name not in catalog.views:
            known = [*words, *catalog.streams, *catalog.views]
            raise word.error(f"no stream or view '{name}'", fix=did_you_mean(name, known))
        if words.get(name, "none") != word.value:
            differences.append(Mismatch(f"plan of '{name}': expected {word.value}, found {words.get(name, 'none')}"))
    return differences


def _word(change: PlannedChange) -> str:
    return {"create": "create", "drop": "drop", "refuse": "refused", "change": change.how}[change.kind]
