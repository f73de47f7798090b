"""A definition as text for people: fields in columns, and beside each what was seen of it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.define.durations import format_duration
from headrace.define.expression.terms import quote
from headrace.infer.seen import MOST_DISTINCT, Seen
from headrace.types import Type


@dataclass(frozen=True)
class DraftField:
    """A field of the stream to be; a computed one has an expression."""

    name: str
    type: Type
    nullable: bool
    comment: str
    expression: str | None = None

    @property
    def sql(self) -> str:
        """As CREATE STREAM takes it, without alignment."""
        return f"{quote(self.name)} {self.rest}"

    @property
    def rest(self) -> str:
        """What stands behind the name."""
        computed = f" AS {self.expression}" if self.expression else ""
        return f"{self.type}{'' if self.nullable else ' NOT NULL'}{computed}"


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
    beside = min(60, max(len(line) for line, _ in lines) + 1)
    body = [
        f"  {line + ('' if number == last else ','):<{beside}}  -- {comment}"
        for number, (line, comment) in enumerate(lines)
    ]
    dropped = [f"  -- not a field: {_one_line(field)!r}, {why}" for field, why in left_out.items()]
    return "\n".join([f"CREATE STREAM {name} (", *body, *dropped, ") FORMAT TEXT;\n" if text else ");\n"])


def describe(seen: Seen) -> str:
    """What was seen of a field, in a few words."""
    if seen.kind in ("array", "object"):
        sizes = [len(value) for value in seen.values if isinstance(value, list)]
        said = f"{min(sizes):,} to {max(sizes):,} elements" if sizes else "an object"
        return said + (f"; {seen.nulls:,} of {seen.rows:,} are null" if seen.nulls else "")
    many = f"{MOST_DISTINCT:,} or more" if seen.distinct >= MOST_DISTINCT else f"{seen.distinct:,}"
    said = "unique" if seen.distinct == len(seen.values) > 1 else f"{many} different"
    if seen.distinct <= 4 and seen.kind in ("string", "boolean") and all(len(str(v)) <= 12 for v in seen.values[:100]):
        said = ", ".join(_one_line(str(value)) or "an empty text" for value in dict.fromkeys(map(str, seen.values)))
    return said + (f"; {seen.nulls:,} of {seen.rows:,} are null" if seen.nulls else "")


def _one_line(text: str) -> str:
    """Data in a comment must not end it."""
    return "".join(character if character.isprintable() else "?" for character in text)
