"""Reads the tokens of a text: the base class of the parsers of statements and expressions."""

from __future__ import annotations

import re
from typing import Any

from headrace.errors import DefinitionError, nearest
from headrace.language.durations import parse_duration, unit_ms
from headrace.language.source_text import END, NUMBER, QUOTED, STRING, SYMBOL, WORD, SourceText, Token, tokenize
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, TIMESTAMP, Type, array, decimal, map_of, struct
from headrace.types import STRING as STRING_TYPE

TYPES = {
    **dict.fromkeys(("STRING", "TEXT", "VARCHAR", "NVARCHAR", "CHAR", "CHARACTER", "BPCHAR", "UUID"), STRING_TYPE),
    **dict.fromkeys(("BOOLEAN", "BOOL"), BOOLEAN),
    # Integers of other sizes are read as the next larger one.
    **dict.fromkeys(("INT", "INTEGER", "INT4", "INT32", "SMALLINT", "SHORT", "INT2", "INT16", "TINYINT", "BYTE",
                     "UINT8", "UINT16"), INT),
    **dict.fromkeys(("BIGINT", "LONG", "INT8", "INT64", "UINT32"), BIGINT),
    # Also those of 32 bits: 0.1 stays 0.1.
    **dict.fromkeys(("DOUBLE", "FLOAT", "REAL", "FLOAT4", "FLOAT8", "FLOAT32", "FLOAT64"), DOUBLE),
    "DATE": DATE,
    # An instant, in microseconds; a text without a zone is UTC.
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATETIME"), TIMESTAMP),
    "DATETIME64": TIMESTAMP,
}  # fmt: skip
DECIMALS = ("DECIMAL", "NUMERIC", "DEC")
BARE_DECIMAL = decimal(10, 0)  # without precision, as in Spark
NEAREST = {
    "TIME": "STRING", **dict.fromkeys(("JSON", "JSONB", "VARIANT"), "STRING for a text, STRUCT<…> for an object"),
    **dict.fromkeys(("BINARY", "VARBINARY", "BYTES", "BYTEA", "BLOB", "ENUM", "INTERVAL", "NCHAR", "CLOB"), "STRING"),
    **dict.fromkeys(("BIGNUMERIC", "NUMBER", "MONEY"), "DECIMAL(38,4)"), "SERIAL": "INT", "BIGSERIAL": "BIGINT",
    "LIST": "ARRAY<…>", "OBJECT": "STRUCT<…>", "HUGEINT": "DECIMAL(38,0)", "UINT64": "DECIMAL(20,0)",
}  # fmt: skip
_LENGTHS = ("VARCHAR", "NVARCHAR", "CHAR", "CHARACTER", "BPCHAR")
_ZONES = (("WITH", "TIME", "ZONE"), ("WITH", "LOCAL", "TIME", "ZONE"), ("WITHOUT", "TIME", "ZONE"))
DEEPEST_TYPE = 8
_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = frozenset({
    "AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE",
    "END", "NULL", "TRUE", "FALSE", "FROM", "WHERE", "GROUP", "BY", "AS", "SELECT", "DISTINCT", "HAVING", "ORDER",
    "LIMIT", "UNION", "EXCEPT", "INTERSECT", "JOIN", "ON", "CAST", "TRY_CAST", "DIV",
})  # fmt: skip

KEYWORDS = (
    "CREATE", "STREAM", "MATERIALIZED", "VIEW", "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT",
    "WATERMARK", "BETWEEN", "DISTINCT", "INTERVAL", "FILTER", "SCHEDULE", "FORMAT", "ENCODE", "ABSENT",
)  # fmt: skip


class TokenCursor:
    """The tokens of a text and the position of the next one."""

    def __init__(self, source: SourceText, unreadable: list[DefinitionError] | None = None) -> None:
        self.source = source
        self.tokens = tokenize(source, unreadable)
        self.index = 0

    @property
    def next(self) -> Token:
        """The token to be read next."""
        return self.tokens[self.index]

    def ahead(self, count: int) -> Token:
        """The token `count` after the next."""
        return self.tokens[min(self.index + count, len(self.tokens) - 1)]

    def take(self) -> Token:
        """Read one token."""
        token = self.next
        if token.kind != END:
            self.index += 1
        return token

    def text_since(self, index: int) -> str:
        """What was written from the token of this index up to the next one."""
        start, end = self.span_since(index)
        return self.source.text[start:end]

    def span_since(self, index: int) -> tuple[int, int]:
        """The offsets of what was read from the token of this index on."""
        return self.tokens[index].start, self.tokens[self.index - 1].end

    def sees(self, *words: str) -> bool:
        """Whether exactly these keywords come next."""
        return all(self.ahead(i).upper == word for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Read these keywords if they come next."""
        if self.sees(*words):
            self.index += len(words)
            return True
        return False

    def sees_symbol(self, *symbols: str) -> bool:
        """Whether one of these symbols comes next."""
        return self.next.kind == SYMBOL and self.next.text in symbols

    def accept_symbol(self, symbol: str) -> bool:
        """Read this symbol if it comes next."""
        if self.sees_symbol(symbol):
            self.index += 1
            return True
        return False

    def expect(self, word: str, after: str) -> Token:
        """Read a keyword that is required here."""
        if self.next.upper != word:
            raise self.unexpected(f"{word} after {after}")
        return self.take()

    def expect_symbol(self, symbol: str, after: str) -> Token:
        """Read a symbol that is required here."""
        if not self.sees_symbol(symbol):
            raise self.unexpected(f"'{symbol}' after {after}")
        return self.take()

    def expect_name(self, of: str) -> Token:
        """Read a name, quoted or not."""
        if self.next.kind == QUOTED or (self.next.kind == WORD and self.next.upper not in RESERVED):
            return self.take()
        raise self.unexpected(f"the name of {of}")

    def unexpected(self, expected: str) -> DefinitionError:
        """The error of a token that is not expected here."""
        token = self.next
        if token.error:
            return token.error
        more = {"found": token.describe(), "expected": expected, **self._advice(expected)}
        return self.error(token.start, "syntax error", **more)

    def _advice(self, expected: str) -> dict[str, Any]:
        """What to write, where the next token or the one before is a known kind of slip."""
        token, before = self.next, self.tokens[max(self.index - 1, 0)]
        for word in (token, before):
            keyword = nearest(word.text, KEYWORDS, 0.75) if word.kind == WORD else None
            if keyword and word.upper not in RESERVED and word.upper not in KEYWORDS:
                return {"fix": f"did you mean {keyword}?", "write": keyword, "span": (word.start, word.end)}
        if "the fields of" in expected and token.kind in (WORD, QUOTED):
            return {"fix": "a ',' is missing before it", "write": ",", "span": (before.end, before.end)}
        if token.upper in RESERVED and self.ahead(1).upper in (*TYPES, *DECIMALS):
            quoted = f"`{token.text}`"
            return {"fix": f"write {quoted} if it is a name", "write": quoted, "span": (token.start, token.end)}
        if before.text == "," and (token.kind == END or token.upper in RESERVED or token.text in ");"):
            return {"fix": "remove the ',' before it", "write": " ", "span": (before.start, before.end)}
        if token.upper == "ORDER" and before.text != ")":
            return {"fix": "remove ORDER BY: aggregates take events in the order of their event time"}
        if expected.startswith(("')'", "']'", "'>'")) and self.index:
            closing = expected[1]
            return {"fix": f"close it with {closing}", "write": closing, "span": (before.end, before.end)}
        if token.upper in RESERVED and "name" in expected:
            quoted = f"`{token.text}`"
            span = (token.start, token.end) if before.upper == "AS" else None
            return {
                "fix": f"write {quoted} in backticks if it is a name",
                **({"write": quoted, "span": span} if span else {}),
            }
        return {}

    def error(self, at: int, message: str, **more: Any) -> DefinitionError:
        """A mistake at an offset of the text, as `Source.error` makes it."""
        return self.source.error(at, message, **more)

    def read_type(self) -> Type:
        """A type that a field or CAST may have."""
        token = self.next
        type_ = self._read_type()
        if type_.depth > DEEPEST_TYPE:
            raise self.error(
                token.start,
                f"a type of {type_.depth} levels is not supported",
                expected=f"at most {DEEPEST_TYPE}",
                fix="declare the inner part STRING and use get_json_object",
            )
        return type_

    def _read_type(self) -> Type:
        type_ = self._read_single_type()
        while self.sees_symbol("[") and self.ahead(1).text == "]":  # BIGINT[]
            self.index += 2
            type_ = array(type_)
        return type_

    def _read_single_type(self) -> Type:
        token = self.next
        if token.kind != WORD:
            raise self.unexpected(
                "a type, such as STRING, INT, BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP, DECIMAL(10,2)"
            )
        self.take()
        name = token.upper
        if name in DECIMALS:
            return self._read_decimal(token)
        if name in TYPES:
            self._skip_details(name)
            return TYPES[name]
        if name in ("ARRAY", "MAP", "STRUCT", "ROW"):
            return self._read_nested("STRUCT" if name == "ROW" else name)
        if name in ("NULLABLE", "LOWCARDINALITY") and self.accept_symbol("("):  # of ClickHouse
            inner = self._read_type()
            self.expect_symbol(")", f"the type of {token.text}")
            return inner
        if name in NEAREST:
            near = NEAREST[name]
            raise self.error(
                token.start, f"the type {name} is not supported", fix=f"the nearest is {near}",
                write=None if "…" in near else near, end=token.end,
            )  # fmt: skip
        similar = nearest(name, [*TYPES, "DECIMAL", "ARRAY", "MAP", "STRUCT"])
        fix = f"did you mean '{similar}'?" if similar else None
        names = "STRING, INT, BIGINT, DOUBLE, DECIMAL(p,s), BOOLEAN, DATE, TIMESTAMP, ARRAY<…>, STRUCT<…> or MAP<…>"
        raise self.error(
            token.start, f"the type '{token.text}' is unknown", expected=names, fix=fix, write=similar, end=token.end
        )

    def _read_nested(self, name: str) -> Type:
        form = {"ARRAY": "ARRAY<INT>", "MAP": "MAP<STRING, INT>", "STRUCT": "STRUCT<a: INT, b: STRING>"}[name]
        closing = ")" if self.sees_symbol("(") else ">"
        if not (self.accept_symbol("<") or self.accept_symbol("(")):
            raise self.unexpected(f"the inner types after {name}, as in {form}")
        if name == "ARRAY":
            type_ = array(self._read_type())
        elif name == "MAP":
            type_ = self._read_map()
        else:
            type_ = self._read_struct()
        self.expect_symbol(closing, f"the inner types of {name}")
        return type_

    def _read_map(self) -> Type:
        at = self.next.start
        key = self._read_type()
        if key != STRING_TYPE:
            raise self.error(
                at, "the keys of a MAP are STRING, as in a JSON object", found=str(key), fix="MAP<STRING, …>"
            )
        self.expect_symbol(",", "the type of the keys of a MAP")
        return map_of(self._read_type())

    def _read_struct(self) -> Type:
        parts: list[tuple[str, Type]] = []
        while not parts or self.accept_symbol(","):
            token = self.take() if self.next.kind == WORD else self.expect_name("a part of the STRUCT")
            if not _PART.fullmatch(token.text):
                raise self.error(
                    token.start, f"'{token.text}' cannot name a part of a STRUCT", expected="letters, digits and _"
                )
            if any(token.text.lower() == name.lower() for name, _ in parts):
                raise self.error(
                    token.start, f"the part '{token.text}' of the STRUCT is declared twice", fix="rename one"
                )
            self.accept_symbol(":")
            parts.append((token.text, self._read_type()))
            if self.sees("NOT", "NULL"):
                raise self.error(
                    self.next.start,
                    "a part of a STRUCT may always be missing",
                    fix="remove NOT NULL; a computed field of that part can have it",
                )
        return struct(*parts)

    def _skip_details(self, name: str) -> None:
        """Read what other systems write after a type and what does not change the values here: VARCHAR(20)."""
        if name == "DOUBLE":
            self.accept("PRECISION")
        if name == "CHARACTER":
            self.accept("VARYING")
        if (name in _LENGTHS or TYPES[name] in (TIMESTAMP, DOUBLE)) and self.accept_symbol("("):
            self._read_count("a length" if name in _LENGTHS else "a precision")
            if self.accept_symbol(","):  # DateTime64(3, 'UTC')
                self.take()
            self.expect_symbol(")", f"the {'length' if name in _LENGTHS else 'precision'}")
        if TYPES[name] == TIMESTAMP:
            any(self.accept(*words) for words in _ZONES)

    def _read_decimal(self, token: Token) -> Type:
        precision, scale = BARE_DECIMAL.precision, BARE_DECIMAL.scale
        if self.accept_symbol("("):
            precision = self._read_count("a precision")
            if self.accept_symbol(","):
                scale = self._read_count("a scale")
            self.expect_symbol(")", "the precision of a DECIMAL")
        if not 1 <= precision <= 38 or scale > precision:
            raise self.error(
                token.start,
                "a DECIMAL has 1 to 38 digits, of which the scale is a part",
                found=f"DECIMAL({precision},{scale})",
                fix="write for example DECIMAL(18,2)",
            )
        return decimal(precision, scale)

    def _read_count(self, what: str) -> int:
        if self.next.kind != NUMBER or not self.next.text.isdigit():
            raise self.unexpected(what)
        return int(self.take().text)

    def read_interval(self) -> int:
        """What follows INTERVAL, in milliseconds: 1 MINUTE, '5' MINUTES, '1 minute', '1 hour 30 minutes'."""
        return self.duration(*self.interval_text())

    def interval_text(self) -> tuple[str, int]:
        """The same as text, and its offset."""
        start = self.next
        if start.kind not in (NUMBER, STRING):
            raise self.unexpected("a duration, such as 1 MINUTE or '1 minute', after INTERVAL")
        self.take()
        text = start.text
        if self.next.kind == WORD and (unit_ms(self.next.text) or not any(c.isalpha() for c in text)):
            text += " " + self.take().text
        return text, start.start

    def read_duration(self) -> int:
        """A duration as '1 minute', INTERVAL 1 MINUTE or plain 1 MINUTE, in milliseconds."""
        self.accept("INTERVAL")
        return self.read_interval()

    def duration(self, text: str, at: int) -> int:
        """Milliseconds of a duration written at this offset."""
        try:
            return parse_duration(text)
        except DefinitionError as e:
            raise self.error(at, e.message, found=e.found, expected=e.expected, fix=e.fix) from None


def parse_type(text: str) -> Type:
    """The type that `str(type)` wrote."""
    if "<" in text:
        return TokenCursor(SourceText(text)).read_type()
    name, _, digits = text.partition("(")
    if not digits:
        return Type(name)
    precision, scale = digits.rstrip(")").split(",")
    return decimal(int(precision), int(scale))
