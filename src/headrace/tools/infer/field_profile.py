"""Profiles of fields: what their names say, their sampled values, and the type that accepts all of them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from headrace.language.identifiers import LONGEST_NAME
from headrace.language.terms import quote
from headrace.parse.iso_times import DATE_FORM, TIMESTAMP_FORM
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

TIME_WORDS = frozenset(
    (
        "at",
        "time",
        "timestamp",
        "ts",
        "date",
        "datetime",
        "when",
        "day",
        "epoch",
        "created",
        "occurred",
        "datum",
        "zeit",
    )
)
# Times of something else than the event: of its end, its person or its record.
OTHER_TIMES = frozenset(
    ("updated", "modified", "changed", "expires", "expiry", "expiration", "due", "birth", "birthday", "dob",
     "delivered", "delivery", "shipped", "shipping", "end", "ended", "finished", "valid", "until", "last", "signup",
     "registered", "hire", "hired", "ingested", "received", "processed", "deleted")
)  # fmt: skip
IDENTITIES = frozenset(("id", "ids", "uuid", "guid", "key", "hash", "token", "email", "mail", "ip", "nr", "no", "pk"))
WHO = frozenset(
    ("visitor", "user", "customer", "client", "account", "session", "device", "member", "player", "person", "driver",
     "sensor", "host", "ip", "email", "author", "kunde", "kunden", "buyer", "patient", "vehicle", "car", "sender")
)  # fmt: skip
# Numbers that name or locate something: their sum has no meaning.
CODES = frozenset(
    ("code", "zip", "plz", "postcode", "postal", "year", "month", "day", "hour", "minute", "week", "lat", "latitude",
     "lon", "lng", "longitude", "status", "port", "version", "phone", "number", "index", "rank", "level", "age", "step",
     "channel", "line", "offset", "page", "x", "y", "flag")
)  # fmt: skip
AMOUNTS = (
    "amount", "total", "revenue", "sales", "turnover", "betrag", "umsatz", "price", "preis", "cost", "fee", "bytes",
    "quantity", "qty", "menge", "value", "volume", "size", "count", "units", "duration", "distance", "energy",
)  # fmt: skip
GROUPS = (
    "page", "path", "category", "type", "event", "action", "status", "country", "product", "channel", "region", "state",
    "kind", "method", "level", "severity", "city", "symbol", "name", "sensor", "device", "store", "shop", "brand",
    "department", "language", "browser", "platform", "currency", "source", "topic", "host", "gender", "land", "artikel",
)  # fmt: skip


def path_sql(path: str) -> str:
    """A field, or a part of one such as address.city, as SQL names it."""
    return ".".join(quote(name) for name in path.split("."))


def words_of(name: str) -> list[str]:
    """The words of a name in small letters, of snake_case and of camelCase."""
    return [word.lower() for word in _WORD.findall(name)]


def is_identity(name: str) -> bool:
    """Return whether this is the name of an identity, whose numbers are not amounts."""
    words = words_of(name)
    return bool(words) and (words[-1] in IDENTITIES or words[0] in ("id", "uuid") or words == ["isbn"])


def is_time(name: str) -> bool:
    """Return whether this is the name of a time."""
    return bool(TIME_WORDS & set(words_of(name)))


def place(name: str, preferred: tuple[str, ...]) -> int | None:
    """The best rank of the name's words in an order of preference; None if none of them is in it."""
    words = words_of(name)
    return min((preferred.index(word) for word in words if word in preferred), default=None)


def stream_name(file_names: list[str]) -> str:
    """The name of the stream of these files: the prefix that their names share, without dates and numbers."""
    stems = [file.partition(".")[0] for file in file_names]
    shared = "".join(
        letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, zip(*stems, strict=False))
    )
    return plain_name(re.sub(r"[\W_]*\d[\d\W_]*$", "", shared))


def plain_name(text: str, otherwise: str = "events") -> str:
    """A name that a stream or view may have, as close to a text as possible."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9]+", "_", ascii_only.lower()).strip("_")
    if not name:
        return otherwise
    name = name if name[0].isalpha() else f"{otherwise}_{name}"
    return name[:LONGEST_NAME].rstrip("_")


BELOW_INT = 1_000_000  # a number this large today may pass 2^31 tomorrow
INT64 = 1 << 63
MOST_DISTINCT = 10_000
BOOLEAN_TEXT = re.compile(r"true|false", re.IGNORECASE)
INTEGER_TEXT = re.compile(r"-?(?:0|[1-9]\d{0,18})", re.ASCII)
NUMBER_TEXT = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True)
class Profile:
    """The sampled values of one field."""

    name: str
    values: list[Any]  # those that are not null, in the order of the events
    rows: int  # of all events
    kinds: Mapping[str, int]
    distinct: int
    texts: bool  # from a format that has only text, such as CSV

    @property
    def nulls(self) -> int:
        """The number of events without the field, or with null in it."""
        return self.rows - len(self.values)

    @property
    def kind(self) -> str:
        """The JSON type of most of the values."""
        return max(self.kinds, key=lambda kind: self.kinds[kind]) if self.kinds else "null"


def profile_values(name: str, values: Iterable[Any], rows: int, *, texts: bool) -> Profile:
    """The profile of the values of one field; None is null."""
    non_null = [value for value in values if value is not None]
    kinds = Counter(text_kind(value) if texts else json_kind(value) for value in non_null)
    distinct: set[str] = set()
    for value in non_null:
        distinct.add(value if isinstance(value, str) else repr(value))
        if len(distinct) >= MOST_DISTINCT:
            break
    return Profile(name, non_null, rows, kinds, len(distinct), texts)


def json_kind(value: Any) -> str:
    """The JSON type of a value."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer" if -INT64 <= value < INT64 else "number"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def text_kind(text: str) -> str:
    """The JSON type that a text can be read as. 007 stays a text: its zeros are significant."""
    if INTEGER_TEXT.fullmatch(text):
        return "integer" if -INT64 <= int(text) < INT64 else "string"
    if NUMBER_TEXT.fullmatch(text):
        return "number"
    return "boolean" if BOOLEAN_TEXT.fullmatch(text) else "string"


def guess_type(profile: Profile) -> Type | None:
    """The narrowest type that accepts every value; None if there is none. DECIMAL is never guessed."""
    kinds = set(profile.kinds)
    if kinds <= {"integer"} and kinds:
        largest = max(abs(int(value)) for value in profile.values)
        return INT if largest < BELOW_INT and not is_identity(profile.name) else BIGINT
    if kinds and kinds <= {"integer", "number"}:
        return DOUBLE
    if kinds == {"boolean"}:
        return BOOLEAN
    if kinds == {"string"} or profile.texts:
        return _of_texts(profile.values)
    return None


def _of_texts(values: list[str]) -> Type:
    if values and all(DATE_FORM.fullmatch(value) for value in values):
        return DATE
    if values and all(TIMESTAMP_FORM.fullmatch(value) for value in values):
        return TIMESTAMP
    return STRING
