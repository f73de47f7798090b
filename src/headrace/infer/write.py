"""Writes a definition: aligned fields, each with a comment on its sampled values."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.language.durations import format_duration
from headrace.language.terms import quote
from headrace.language.source_text import escape
from headrace.infer.profile import MOST_DISTINCT, Profile
from headrace.types import Type


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
        """What follows the name."""
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
