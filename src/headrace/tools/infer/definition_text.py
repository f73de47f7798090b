"""The text of a definition: aligned fields, each with a comment on its sampled values, and a first view."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from headrace.language.durations import format_duration
from headrace.language.identifiers import LONGEST_NAME, RESERVED_COLUMNS
from headrace.language.source_text import escape
from headrace.language.terms import quote
from headrace.tools.infer.field_profile import (
    AMOUNTS,
    CODES,
    GROUPS,
    MOST_DISTINCT,
    WHO,
    Profile,
    is_identity,
    is_time,
    path_sql,
    place,
    words_of,
)
from headrace.types import BOOLEAN, DOUBLE, INT, STRING, Type

MOST_KEYS = 200
PERSONAL = WHO | {"first", "last", "full", "sur", "family", "given"}
PER_ONE = {"unit", "per", "each", "average", "avg", "mean", "rate"}  # prices of one unit are not summed
NAMES_OF_WINDOWS = {"1 minute": "minute", "1 hour": "hour", "1 day": "day"}


@dataclass(frozen=True)
class Candidate:
    """A field as a view may use it."""

    name: str
    type: Type
    rows: int
    nulls: int
    distinct: int
    texts: bool = False  # its values are long texts, not names

    @property
    def label(self) -> str:
        """The name in an answer."""
        return self.name.replace(".", "_")

    @property
    def select_item(self) -> str:
        """The item in SELECT; a part of a field needs an alias."""
        return path_sql(self.name) if self.label == self.name else f"{path_sql(self.name)} AS {quote(self.label)}"


@dataclass(frozen=True)
class Suggestion:
    """A view in SQL."""

    name: str
    sql: str


def suggest_view(stream: str, fields: list[Candidate], time: str, window_ms: int, other_names: Set[str]) -> Suggestion:
    """The first view of a stream, over windows of its event time."""
    key = _key(fields)
    span = format_duration(window_ms)
    per = NAMES_OF_WINDOWS.get(span, "window")
    name = _unused(f"{stream}_by_{key.label.lower()}" if key else f"{stream}_per_{per}", other_names)
    items = [key.select_item] if key else []
    columns = {"count": "count(*)"}
    amount = _best(fields, lambda field: _amount(field, key))
    if amount:
        of_one = place(amount.name, AMOUNTS) is None or PER_ONE & set(words_of(amount.name))
        function = "avg" if of_one else "sum"
        columns[f"{function}_{amount.label.lower()}"] = f"{function}({path_sql(amount.name)})"
    who = _best(fields, lambda field: _who(field, key))
    if who:
        columns[f"distinct_{who.label.lower()}"] = f"approx_count_distinct({path_sql(who.name)})"
    width = max(len(expression) for expression in columns.values())
    items += [f"{expression:<{width}} AS {quote(column[:LONGEST_NAME])}" for column, expression in columns.items()]
    group = f"{quote(key.label)}, " if key else ""
    select_list = ",\n       ".join(items)
    sql = (
        f"CREATE MATERIALIZED VIEW {name} AS\nSELECT {select_list}\nFROM {stream}\n"
        f"GROUP BY {group}window({quote(time)}, '{span}');\n"
    )
    return Suggestion(name, sql)


def _unused(name: str, other_names: Set[str]) -> str:
    name = name.replace("__", "_")[: LONGEST_NAME - 2]
    return name if name.lower() not in other_names else f"{name}_2"


def _best(fields: list[Candidate], score: Callable[[Candidate], float | None]) -> Candidate | None:
    ranks = [(points, -number, field) for number, field in enumerate(fields) if (points := score(field)) is not None]
    return max(ranks, key=lambda rank: rank[:2])[2] if ranks else None


def _key(fields: list[Candidate]) -> Candidate | None:
    """The field to group by: few distinct values, rarely null, and a name that is typical of keys."""

    def score(field: Candidate) -> float | None:
        if field.type not in (STRING, BOOLEAN, INT) or field.label.lower() in RESERVED_COLUMNS or field.texts:
            return None
        words = set(words_of(field.name))
        if is_identity(field.name) or is_time(field.name) or ("name" in words and words & PERSONAL):
            return None
        rank = place(field.name, GROUPS)
        most = min(MOST_KEYS, max(2, field.rows // 3) if rank is None else max(2, field.rows - 1))
        if not 2 <= field.distinct <= most or field.nulls > field.rows // 2:
            return None
        if field.type == INT and rank is None:
            return None  # a count of something rather than its name
        size_factor = 1.0 if 3 <= field.distinct <= 50 else 0.6
        name_score = 3.0 - 0.03 * rank if rank is not None else 0.5 if words & WHO else 1.0
        return name_score * size_factor * 0.9 ** field.name.count(".") + (field.type == STRING) * 0.2

    return _best(fields, score)


def _amount(field: Candidate, key: Candidate | None) -> float | None:
    """The score of a number to sum or to average; None for numbers that name or locate something."""
    if not field.type.is_numeric or field == key or is_identity(field.name) or is_time(field.name):
        return None
    words = set(words_of(field.name))
    rank = place(field.name, AMOUNTS)
    if (words & CODES and rank is None) or field.distinct < 2:
        return None
    if rank is not None:
        return 3.0 - 0.05 * rank - 0.5 * bool(words & CODES)
    return 1.0 if field.type == DOUBLE else None


def _who(field: Candidate, key: Candidate | None) -> float | None:
    """The score of a field to count distinct values of: an identity that recurs, preferably of a person or device."""
    if field == key or (field.type != STRING and not field.type.is_numeric) or is_time(field.name):
        return None
    if field.type == DOUBLE and not is_identity(field.name):
        return None  # spreadsheets write identities as 17850.0; other fractions are amounts
    person = bool(WHO & set(words_of(field.name)))
    if not (person or is_identity(field.name)) or field.distinct < 2 or field.distinct >= field.rows - field.nulls:
        return None
    return 2.0 * person + is_identity(field.name)


@dataclass(frozen=True)
class DraftField:
    """A field of the inferred stream; a computed one has an expression."""

    name: str
    type: Type
    nullable: bool
    comment: str
    expression: str | None = None
    path: str | None = None  # where it is in an event, if not under its name

    @property
    def sql(self) -> str:
        """The field in CREATE STREAM, without alignment."""
        return f"{quote(self.name)} {self.rest}"

    @property
    def rest(self) -> str:
        """The part that follows the name."""
        expression = f" AS {self.expression}" if self.expression else ""
        source = f" FROM {escape(self.path)}" if self.path else ""
        return f"{self.type}{source}{'' if self.nullable else ' NOT NULL'}{expression}"


def write_stream(
    name: str,
    fields: list[DraftField],
    event_time: str | None,
    patience_ms: int,
    left_out: dict[str, str],
    *,
    text: bool = False,
) -> str:
    """CREATE STREAM, with a comment on each line; of lines of text, or of JSON events."""
    width = max(len(quote(field.name)) for field in fields)
    lines = [(f"{quote(field.name):<{width}} {field.rest}", field.comment) for field in fields]
    if event_time:
        patience = format_duration(patience_ms).upper().removesuffix("S")
        watermark = f"WATERMARK FOR {quote(event_time)} AS {quote(event_time)} - INTERVAL {patience}"
        lines.append((watermark, "event time and patience: late events always count"))
    last = len(lines) - 1
    comment_column = min(60, max(len(line) for line, _ in lines) + 1)
    body = [
        f"  {line + ('' if number == last else ','):<{comment_column}}  -- {comment}"
        for number, (line, comment) in enumerate(lines)
    ]
    notes = [f"  -- not a field: {_one_line(field)!r}, {why}" for field, why in left_out.items()]
    return "\n".join([f"CREATE STREAM {name} (", *body, *notes, ") FORMAT TEXT;\n" if text else ");\n"])


def describe(profile: Profile) -> str:
    """The sampled values of a field, in a few words."""
    if profile.kind in ("array", "object"):
        sizes = [len(value) for value in profile.values if isinstance(value, list)]
        text = f"{min(sizes):,} to {max(sizes):,} elements" if sizes else "an object"
        return text + (f"; {profile.nulls:,} of {profile.rows:,} are null" if profile.nulls else "")
    count = f"{MOST_DISTINCT:,} or more" if profile.distinct >= MOST_DISTINCT else f"{profile.distinct:,}"
    text = "unique" if profile.distinct == len(profile.values) > 1 else f"{count} different"
    if (
        profile.distinct <= 4
        and profile.kind in ("string", "boolean")
        and all(len(str(v)) <= 12 for v in profile.values[:100])
    ):
        text = ", ".join(_one_line(str(value)) or "an empty text" for value in dict.fromkeys(map(str, profile.values)))
    return text + (f"; {profile.nulls:,} of {profile.rows:,} are null" if profile.nulls else "")


def _one_line(text: str) -> str:
    """The text without line breaks, which would end a comment."""
    return "".join(character if character.isprintable() else "?" for character in text)
