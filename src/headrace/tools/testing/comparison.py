"""Compares what came of a test with what it expects, cell by cell; differences are data, which the command prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from headrace.errors import QuestionError, did_you_mean
from headrace.serve.answer import Answer
from headrace.serve.json_values import key_value
from headrace.tools.testing.direct_engine import LayerAnswer, Letter, Outcome
from headrace.tools.testing.written_tests import Expected, ExpectedLetter, Tolerance
from headrace.tools.testing.yaml_file import Items, Text, YamlFields, YamlNode
from headrace.types import Type

ROUNDING = Tolerance(Decimal("1e-9"), relative=True)  # of a DOUBLE: sums depend on the order of events
_STATED = re.compile(r"within ([0-9.]+) %")


def stated_error(text: str | None) -> Tolerance | None:
    """The error that an approximate column states, where it is a share of the value."""
    match = _STATED.match(text or "")
    return Tolerance(Decimal(match[1]) / 100, relative=True) if match else None


def expected_value(node: YamlNode, of: Type) -> Any:
    """The value that a cell of this type should have. Raises BadTestError for one that it can never have."""
    if isinstance(node, Text) and node.is_null:
        return None
    if of.name == "ARRAY" and isinstance(node, Items):
        return [expected_value(item, of.inner) for item in node.items]
    if of.name == "STRUCT" and isinstance(node, YamlFields):
        parts = dict(of.parts)
        node.check_names("the STRUCT", list(parts))
        return {name: expected_value(value, parts[name]) for name, value in node.values.items()}
    if of.name == "MAP" and isinstance(node, YamlFields):
        return {name: expected_value(value, of.inner) for name, value in node.values.items()}
    if of.is_nested or not isinstance(node, Text):
        raise node.error(f"the column has the type {of}", found=f"a {node.kind}")
    if of.name == "BINARY":
        return node.value.lower()  # in hexadecimal
    if of.is_numeric:
        return _number(node, of)
    try:
        return key_value("", of, node.value)
    except QuestionError as error:
        raise node.error(f"the column has the type {of}", found=repr(node.value), expected=error.expected) from None


def _number(node: Text, of: Type) -> Decimal:
    """The number with all its digits, whatever the type: a value that the column cannot have equals none."""
    text = node.value.strip().lower()
    try:
        return Decimal(text.replace(".nan", "nan").replace(".inf", "infinity"))
    except InvalidOperation:
        raise node.error(f"the column has the type {of}", found=repr(node.value), expected="a number") from None


def equal(found: Any, expected: Any, tolerance: Tolerance | None) -> bool:
    """Return whether a value is the expected one. Parts of a STRUCT that are not named may have any value."""
    if found is None or expected is None:
        return found is None and expected is None
    if isinstance(expected, dict):
        is_map = isinstance(found, list)  # a MAP is a list of pairs, as in Arrow
        pairs = dict(found) if is_map else found
        whole = not is_map or len(pairs) == len(expected)
        return whole and all(name in pairs and equal(pairs[name], value, tolerance) for name, value in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(equal(a, b, tolerance) for a, b in zip(found, expected, strict=True))
    if isinstance(found, bytes):
        return bool(found.hex() == expected)
    if isinstance(found, bool | str | date | datetime) or not isinstance(found, int | float | Decimal):
        return bool(found == expected)
    return _is_near(found, expected, tolerance)


def _is_near(found: float | Decimal, expected: Decimal, tolerance: Tolerance | None) -> bool:
    value = Decimal(repr(found)) if isinstance(found, float) else Decimal(found)
    if not value.is_finite() or not expected.is_finite():
        return value == expected or (value.is_nan() and expected.is_nan())
    if value == expected:
        return True
    if tolerance is None:
        if not isinstance(found, float):
            return False
        tolerance = ROUNDING
    return abs(value - expected) <= (tolerance.amount * abs(expected) if tolerance.relative else tolerance.amount)


SIDE = ("window_start", "window_end", "settled")  # columns of every answer, which `exact` does not ask for
Mark = Literal["same", "differs", "missing", "unexpected"]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class RowDifference:
    """A row of the expected or the found ones, or two that belong together; `wrong` are the columns that differ."""

    mark: Mark
    expected: Row | None
    found: Row | None
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowsDifference:
    """The rows of an answer that is not as expected."""

    view: str
    layer: str
    columns: tuple[str, ...]
    rows: tuple[RowDifference, ...]
    keys: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Mismatch:
    """One thing that is not as expected: a sentence, and the rows if it is about rows."""

    message: str
    rows: RowsDifference | None = None


def compare_outcome(expected: Expected, outcome: Outcome, keys: Sequence[str], ordered: bool) -> list[Mismatch]:
    """All differences. Raises BadTestError for columns that the view does not have."""
    differences = compare_letters(expected.dead_letters, outcome.letters)
    alike = [
        compare_answer(expected, replace(layer_answer, layer=""), keys, ordered) for layer_answer in outcome.answers
    ]
    if all(each == alike[0] for each in alike):  # the layers agree: a mismatch is reported once
        return differences + (alike[0] if alike else [])
    return differences + [
        d for layer_answer in outcome.answers for d in compare_answer(expected, layer_answer, keys, ordered)
    ]


def compare_answer(expected: Expected, layer_answer: LayerAnswer, keys: Sequence[str], ordered: bool) -> list[Mismatch]:
    """The differences of one answer."""
    answer, layer = layer_answer.answer, f" (read from the {layer_answer.layer})" if layer_answer.layer else ""
    differences = []
    if answer.stalled:
        differences.append(Mismatch(f"view '{answer.view}' is stalled{layer}: {answer.stalled}"))
    if expected.rows is not None:
        rows = compare_rows(expected, answer, keys, ordered, layer_answer.layer)
        if rows is not None:
            differences.append(Mismatch(_summary(rows) + layer, rows))
    if expected.corrections is not None and answer.corrections != expected.corrections:
        differences.append(Mismatch(f"corrections{layer}: expected {expected.corrections}, found {answer.corrections}"))
    return differences


def compare_rows(
    expected: Expected, answer: Answer, keys: Sequence[str], ordered: bool, layer: str = ""
) -> RowsDifference | None:
    """Expected rows next to found ones; None if they agree."""
    types = dict(answer.columns)
    rows = [_typed(row, types, answer.view) for row in expected.rows or ()]
    tolerance = {name: expected.tolerance_of(name) or stated_error(answer.approximate.get(name)) for name in types}
    columns_named = [name for name in types if any(name in row for row in rows)]
    if expected.exact:
        columns_named = [name for name in types if name in columns_named or name not in SIDE]
        _check_exact(expected.rows or (), [name for name in columns_named if name not in SIDE])

    def wrong(row: Row, other: Row) -> tuple[str, ...]:
        return tuple(name for name in row if not equal(other[name], row[name], tolerance[name]))

    answer_rows = answer.rows()
    compared = _in_order(rows, answer_rows, wrong) if ordered else _in_any_order(rows, answer_rows, wrong, keys)
    if all(row.mark == "same" for row in compared):
        return None
    listed = columns_named or list(types)
    has_windows = any(row["window_start"] is not None for row in answer_rows if "window_start" in row)
    lead = [name for name in types if name in keys or (name == "window_start" and has_windows)]
    columns = tuple(name for name in types if name in listed or name in lead)
    return RowsDifference(answer.view, layer, columns, tuple(compared), frozenset(keys))


def _typed(row: YamlFields, types: Mapping[str, Type], view: str) -> dict[str, Any]:
    for name, node in row.names.items():
        if name not in types:
            raise node.error(
                f"view '{view}' has no column '{name}'",
                expected=", ".join(types),
                fix=did_you_mean(name, types),
            )
    return {name: expected_value(node, types[name]) for name, node in row.values.items()}


def _check_exact(rows: Sequence[YamlFields], columns: Sequence[str]) -> None:
    for row in rows:
        lacking = [name for name in columns if name not in row.values]
        if lacking:
            raise row.error(
                "exact: true asks for every column", found=f"a row without {', '.join(lacking)}", fix="add them"
            )


Wrong = Callable[[Row, Row], tuple[str, ...]]


def _in_order(rows: Sequence[Row], found: Sequence[Row], wrong: Wrong) -> list[RowDifference]:
    compared = [_pair(row, other, wrong) for row, other in zip(rows, found, strict=False)]
    compared += [RowDifference("missing", row, None) for row in rows[len(found) :]]
    return compared + [RowDifference("unexpected", None, row) for row in found[len(rows) :]]


def _in_any_order(rows: Sequence[Row], found: Sequence[Row], wrong: Wrong, keys: Sequence[str]) -> list[RowDifference]:
    """Pair as many rows as can agree. Of the others, those of one key and window, then those with most in common."""
    identity = [*keys, "window_start", "window_end"]
    pairs = match([[at for at in near if not wrong(row, found[at])] for row, near in _near(rows, found, identity)])
    compared = {number: RowDifference("same", rows[number], found[at]) for number, at in pairs.items()}
    left = sorted({*range(len(found))} - {*pairs.values()})
    for same_identity in (True, False):
        for number in [number for number in range(len(rows)) if number not in compared]:
            candidates = [(len(columns), at, columns) for at in left if (columns := wrong(rows[number], found[at]))]
            if same_identity:
                candidates = [each for each in candidates if not set(identity) & set(each[2])]
            count, at, columns = min(candidates, default=(len(rows[number]), -1, ()))
            if count < len(rows[number]):
                compared[number] = RowDifference("differs", rows[number], found[at], columns)
                left.remove(at)
    missing = [RowDifference("missing", row, None) for number, row in enumerate(rows) if number not in compared]
    unexpected = [RowDifference("unexpected", None, found[at]) for at in left]
    return [*(compared[number] for number in sorted(compared)), *missing, *unexpected]


def _near(rows: Sequence[Row], found: Sequence[Row], identity: Sequence[str]) -> Iterator[tuple[Row, Sequence[int]]]:
    """Pair each row with the found ones that may agree with it: those with its keys and window, if it names some."""
    places: dict[tuple[str, ...], dict[Any, list[int]]] = {}
    for row in rows:
        # A text or a time is itself; a number may be within its tolerance of another.
        names = tuple(name for name in identity if isinstance(row.get(name), str | date))
        if names not in places:
            places[names] = {}
            for at, other in enumerate(found):
                places[names].setdefault(tuple(other.get(name) for name in names), []).append(at)
        yield row, places[names].get(tuple(row[name] for name in names), ())


def match(agreeing: Sequence[Sequence[int]]) -> dict[int, int]:
    """Find as many pairs as possible of a row and one of those that agree with it, each of which is used once.

    A row that names few columns agrees with many: it must not keep the only one that another row agrees with.
    """
    pairs: dict[int, int] = {}
    owner: dict[int, int] = {}  # the same, by candidate
    for number in range(len(agreeing)):
        reached: dict[int, int] = {}  # from which row each candidate was reached
        rows = [number]
        while rows:
            row = rows.pop(0)
            for at in agreeing[row]:
                if at in reached:
                    continue
                reached[at] = row
                if at in owner:
                    rows.append(owner[at])
                    continue
                _pass_on(pairs, owner, reached, at)
                rows = []
                break
    return pairs


def _pass_on(pairs: dict[int, int], owner: dict[int, int], reached: Mapping[int, int], at: int | None) -> None:
    """Give a free candidate to the row that reached it, what that row had to the one before, and so on."""
    while at is not None:
        row = reached[at]
        owner[at], before = row, pairs.get(row)
        pairs[row], at = at, before


def _pair(row: Row, other: Row, wrong: Wrong) -> RowDifference:
    columns = wrong(row, other)
    return RowDifference("differs" if columns else "same", row, other, columns)


def _summary(rows: RowsDifference) -> str:
    counts = {mark: sum(row.mark == mark for row in rows.rows) for mark in ("differs", "missing", "unexpected")}
    words = {"differs": "differ", "missing": "missing", "unexpected": "unexpected"}
    parts = ", ".join(f"{count} {words[mark]}" for mark, count in counts.items() if count)
    return f"rows of view '{rows.view}': {parts}"


def compare_letters(expected: Sequence[ExpectedLetter] | None, found: Sequence[Letter]) -> list[Mismatch]:
    """Compare dead letters, each of which is expected once. A test that says nothing of them expects none."""
    left = list(found)
    differences = []
    for letter in expected or ():
        match = next((other for other in left if _fits(letter, other)), None)
        if match is None:
            differences.append(Mismatch(f"a dead letter is missing: {letter}"))
        else:
            left.remove(match)
    for other in left:
        hint = "" if expected is not None else "; if it is expected, name it under dead_letters"
        message = f"stream '{other.stream}' does not take this event: {other.event}: {other.reason}{hint}"
        differences.append(Mismatch(message))
    return differences


def _fits(letter: ExpectedLetter, other: Letter) -> bool:
    same_stream = letter.stream is None or letter.stream == other.stream
    return same_stream and letter.reason.lower() in other.reason.lower() and letter.event in other.event


def compare_errors(expected: Sequence[str], found: Sequence[str]) -> list[Mismatch]:
    """Compare errors, each of which is expected once, by a part of its text."""
    left = list(found)
    differences = []
    for part in expected:
        match = next((text for text in left if part.lower() in text.lower()), None)
        if match is None:
            differences.append(Mismatch(f"no error says {part!r}"))
        else:
            left.remove(match)
    return differences + [Mismatch(f"an error that is not expected: {text}") for text in left]
