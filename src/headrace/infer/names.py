"""Names of fields: their words, and whether they are names of times, identities or amounts."""

from __future__ import annotations

import re
import unicodedata
from itertools import takewhile

from headrace.language.terms import quote
from headrace.define.definition_rules import LONGEST_NAME

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
    """Whether this is the name of an identity, whose numbers are not amounts."""
    words = words_of(name)
    return bool(words) and (words[-1] in IDENTITIES or words[0] in ("id", "uuid") or words == ["isbn"])


def is_time(name: str) -> bool:
    """Whether this is the name of a time."""
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
