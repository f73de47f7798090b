"""Arrow columns as JSON text, and rows of them as NDJSON lines: whole columns at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import IngestError

Numbers = npt.NDArray[np.int64]
Text: TypeAlias = pa.Array  # of large strings: JSON, NULL where the value is
_TEXT = pa.large_string()
_NEEDS_ESCAPE = np.zeros(256, dtype=bool)
_NEEDS_ESCAPE[:32] = True
_NEEDS_ESCAPE[[ord('"'), ord("\\")]] = True
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_YEAR_1_S, _YEAR_10000_S = -62_135_596_800, 253_402_300_800
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_lines(names: list[str], texts: list[Text], rows: int) -> Text:
    """One line per row, an object of the columns; a NULL is left out."""
    if not names:
        return pa.array(["{}\n"] * rows, _TEXT)
    return _join("{", _pairs(names, texts), "}\n")


def json_text(name: str, column: pa.Array) -> Text:
    """A column's values as JSON. NaN and infinities are written so that the parser refuses them."""
    if isinstance(column, pa.ExtensionArray):
        return json_text(name, column.storage)
    if pa.types.is_dictionary(column.type):
        return json_text(name, column.dictionary).take(column.indices)
    for fits, convert in _CONVERTERS:
        if fits(column.type):
            return convert(name, column)
    raise IngestError(
        f"column '{name}' cannot be read", found=f"the type {column.type}", fix="leave it out, or write it as text"
    )


def quote(column: pa.Array) -> Text:
    """Strings as JSON strings."""
    text = column.cast(_TEXT) if column.type != _TEXT else column
    characters = _bytes(text)
    if len(characters) and _NEEDS_ESCAPE[characters].any():
        codes = np.unique(characters[_NEEDS_ESCAPE[characters]])
        # The backslash first: the other escapes contain it.
        for code in sorted(codes.tolist(), key=lambda code: code != ord("\\")):
            text = pc.replace_substring(text, chr(code), orjson.dumps(chr(code)).decode()[1:-1])
    return _join('"', text, '"')


def line_bytes(lines: Text) -> pa.Buffer:
    """The bytes of all lines, without a copy."""
    starts = np.frombuffer(memoryview(lines.buffers()[1]), dtype=np.int64)
    first, last = int(starts[lines.offset]), int(starts[lines.offset + len(lines)])
    return lines.buffers()[2].slice(first, last - first) if last > first else pa.py_buffer(b"")


def _bytes(text: Text) -> npt.NDArray[np.uint8]:
    return np.frombuffer(memoryview(line_bytes(text)), dtype=np.uint8)


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, _TEXT)


def _key(name: str) -> str:
    return orjson.dumps(name).decode() + ":"


def _join(*parts: Text | str) -> Text:
    """The parts of each row, one after the other; NULL where one is."""
    values = [_text(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*values, _text(""))


def _pairs(names: list[str], texts: list[Text]) -> Text:
    """The members of each row's object, those that are not NULL."""
    pairs = [_join(_key(name), text) for name, text in zip(names, texts, strict=True)]
    if all(pair.null_count for pair in pairs):
        # binary_join_element_wise drops rows in which all values are skipped (pyarrow 26).
        nothing = pairs[0].is_null()
        for pair in pairs[1:]:
            nothing = pc.and_(nothing, pair.is_null())
        pairs[0] = pc.if_else(nothing, _text(""), pairs[0])
    return pc.binary_join_element_wise(*pairs, _text(","), null_handling="skip")


def _plain(name: str, column: pa.Array) -> Text:
    return column.cast(_TEXT)


def _quoted(name: str, column: pa.Array) -> Text:
    return quote(column.cast(_TEXT))


def _floating(name: str, column: pa.Array) -> Text:
    text = column.cast(_TEXT)
    if pc.all(pc.is_finite(column)).as_py() is not False:
        return text
    for arrow_name, json_name in _NOT_FINITE.items():
        text = pc.if_else(pc.equal(text, _text(arrow_name)), _text(json_name), text)
    return text


def _binary(name: str, column: pa.Array) -> Text:
    """Bytes that are UTF-8, as older writers store text; JSON cannot hold others."""
    try:
        return quote(column.cast(pa.large_binary()).cast(_TEXT))
    except pa.ArrowInvalid as error:
        raise IngestError(
            f"column '{name}' cannot be read",
            found=f"the type {column.type} with bytes that are not UTF-8",
            fix="leave it out, or write it as text (hexadecimal, base64)",
        ) from error


def _timestamp(name: str, column: pa.Array) -> Text:
    """ISO 8601 in UTC. Nanoseconds and years after 9999 are written so that the parser refuses them."""
    per_second = _PER_SECOND[column.type.unit]
    valid, count = np.asarray(column.is_valid()), np.asarray(column.cast(pa.int64()).fill_null(0))
    seconds, rest = np.divmod(count, per_second)
    in_range = (seconds >= _YEAR_1_S) & (seconds < _YEAR_10000_S)
    text = _iso(np.where(in_range, seconds, 0), rest * 1_000_000 // per_second, 6, valid)
    if per_second > 1_000_000 and (fine := rest % 1000 != 0).any():
        text = pc.if_else(pa.array(fine), _iso(np.where(in_range, seconds, 0), rest, 9, valid), text)
    if in_range.all():
        return text
    epoch = _join('"', column.cast(pa.int64()).cast(_TEXT), f' {column.type.unit} since 1970"')
    return pc.if_else(pa.array(in_range), text, epoch)


def _iso(seconds: Numbers, part: Numbers, digits: int, valid: npt.NDArray[np.bool_]) -> Text:
    """Times as quoted text, with this many digits of a second; NULL where they are not valid."""
    days, second = np.divmod(seconds, 86_400)
    day = days.astype("datetime64[D]")
    month = day.astype("datetime64[M]")
    fields = [
        (day.astype("datetime64[Y]").astype(np.int64) + 1970, 4, "-"),
        (month.astype(np.int64) % 12 + 1, 2, "-"),
        ((day - month).astype(np.int64) + 1, 2, "T"),
        (second // 3600, 2, ":"),
        (second // 60 % 60, 2, ":"),
        (second % 60, 2, "."),
        (part, digits, 'Z"'),
    ]
    return _fixed_width(fields, valid)


def _fixed_width(fields: list[tuple[Numbers, int, str]], valid: npt.NDArray[np.bool_]) -> Text:
    """Numbers with leading zeros, each followed by its mark, after an opening quote."""
    rows, width = len(valid), 1 + sum(digits + len(mark) for _, digits, mark in fields)
    out = np.empty((rows, width), dtype=np.uint8)
    out[:, 0] = ord('"')
    at = 1
    for number, digits, mark in fields:
        for place in range(digits - 1, -1, -1):
            number, digit = np.divmod(number, 10)
            out[:, at + place] = digit + 48
        at += digits
        out[:, at : at + len(mark)] = np.frombuffer(mark.encode(), dtype=np.uint8)
        at += len(mark)
    offsets = pa.array(np.arange(0, (rows + 1) * width, width, dtype=np.int64))
    texts = pa.LargeStringArray.from_buffers(rows, offsets.buffers()[1], pa.py_buffer(out.tobytes()))
    return texts if valid.all() else pc.if_else(pa.array(valid), texts, pa.scalar(None, _TEXT))


def _list(name: str, column: pa.Array) -> Text:
    items = column.cast(pa.large_list(column.type.value_type))
    text = pc.fill_null(json_text(name, items.flatten()), _text("null"))
    return _join("[", _join_items(items, text), "]")


def _map(name: str, column: pa.Array) -> Text:
    map_type = column.type
    items = column.cast(pa.large_list(pa.struct([("key", map_type.key_type), ("value", map_type.item_type)])))
    key, value = items.flatten().flatten()
    keys = json_text(name, key)
    if not _is_text(map_type.key_type):
        keys = quote(pc.replace_substring(keys, '"', ""))
    pairs = _join(keys, ":", pc.fill_null(json_text(name, value), _text("null")))
    return _join("{", _join_items(items, pairs), "}")


def _join_items(items: pa.Array, text: Text) -> Text:
    """The items' text joined by commas, as the lists hold them; an empty list gives an empty text."""
    lengths = pc.fill_null(pc.list_value_length(items), 0)
    offsets = pa.array(np.concatenate(([0], np.cumsum(np.asarray(lengths)))))
    texts = pc.binary_join(pa.LargeListArray.from_arrays(offsets, text), _text(","))
    return pc.if_else(items.is_valid(), texts, pa.scalar(None, _TEXT)) if items.null_count else texts


def _struct(name: str, column: pa.Array) -> Text:
    names = [field.name for field in column.type]
    if not names:
        return pc.if_else(column.is_valid(), _text("{}"), pa.scalar(None, _TEXT))
    texts = [json_text(f"{name}.{inner}", child) for inner, child in zip(names, column.flatten(), strict=True)]
    text = _join("{", _pairs(names, texts), "}")
    return pc.if_else(column.is_valid(), text, pa.scalar(None, _TEXT)) if column.null_count else text


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
        or pa.types.is_binary_view(type_)
    )


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


_CONVERTERS: list[tuple[Callable[[pa.DataType], bool], Callable[[str, pa.Array], Text]]] = [
    (_is_text, _quoted),
    (pa.types.is_integer, _plain),
    (pa.types.is_boolean, _plain),
    (pa.types.is_null, _plain),
    (pa.types.is_floating, _floating),
    (pa.types.is_decimal, _plain),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date, _quoted),
    (pa.types.is_time, _quoted),
    (_is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
    (_is_bytes, _binary),
]
