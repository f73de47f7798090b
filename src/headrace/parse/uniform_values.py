"""The values of one field in many events as a typed column, and which of them are certainly good.

A value that is not certainly good is left to other parsers: they may accept it or refuse it.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.parse.block_checks import Mask, are_all_utf8, are_utf8, is_valid
from headrace.parse.frames import Frames
from headrace.parse.record_columns import utc_us
from headrace.types import Type, arrow_type

Column = tuple[pa.Array, Mask | None]  # the values, and which of them are certainly good: None if all are
_QUOTE, _BACKSLASH, _SPACE, _NULL = b'"\\ n'
_WORD = 8
_DATE_LENGTH = 10
_BEYOND_ASCII = 0x80
_ZONE = re.compile(rb"[T ].*(?:Z|[+-][0-9:]{2,5})\Z")
_BOOLEAN = r"\A(?:true|false)\z"
_INTEGER = r"\A-?(?:0|[1-9][0-9]*)\z"
_NUMBER = r"\A-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\z"
_BARE = rf"{_NUMBER}|\A(?:true|false|null)\z"
# For columns with a value that Arrow cannot convert: it can convert all that match these.
_SMALL_INTEGER = {
    "INT": r"\A-?(?:0|[1-9][0-9]{0,8}|1[0-9]{9})\z",
    "BIGINT": r"\A-?(?:0|[1-9][0-9]{0,17}|[1-8][0-9]{18})\z",
}
_SMALL_NUMBER = r"\A-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?\z"
_DAY = "[1-8][0-9]{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_TIME = r"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_DATE = rf"\A{_DAY}\z"
_LOCAL_TIMESTAMP = rf"\A{_DAY}(?:{_TIME})?\z"
_ZONED_TIMESTAMP = rf"\A{_DAY}{_TIME}(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])\z"


def read_column(of: Type | None, values: Frames, *, is_quoted: bool) -> Column:
    """The column of a field, whose values are the frames. If the field is not declared, only the mask counts."""
    if is_quoted:
        return _read_quoted(of, values)
    return _read_integers(of, values) if of is not None and of.is_integer else _read_bare(of, values)


def _read_quoted(of: Type | None, values: Frames) -> Column:
    texts = values.texts()
    if of is None or of.name == "STRING":
        return texts, _good_strings(texts)
    match of.name:
        case "TIMESTAMP":
            return _read_timestamps(texts, has_zone=_ZONE.search(values[0]) is not None)
        case "DATE":
            have_length = bool((values.ends - values.starts == _DATE_LENGTH).all())
            return _cast(texts, pa.date32(), *([None] if have_length else []), _DATE)
        case "DECIMAL":
            return _cast(texts, arrow_type(of), _decimal(of))
    return _cast(texts, arrow_type(of))  # no text is such a value


def _read_bare(of: Type | None, values: Frames) -> Column:
    """Numbers, true, false and null."""
    texts = values.texts()
    if of is None:
        return texts, _matching(texts, _BARE)
    if (values.data[values.starts] == _NULL).any():
        texts = _only(texts, pc.not_equal(texts, "null"))
    match of.name:
        case "INT" | "BIGINT":
            return _cast(texts, arrow_type(of), _INTEGER, _SMALL_INTEGER[of.name])
        case "DOUBLE":
            return _cast(texts, pa.float64(), _NUMBER, _SMALL_NUMBER)
        case "DECIMAL":
            return _cast(texts, arrow_type(of), _decimal(of))
        case "BOOLEAN":
            return _cast(texts, pa.bool_(), _BOOLEAN)
    return pa.nulls(len(texts), arrow_type(of)), texts.is_null().to_numpy(zero_copy_only=False)


def _read_integers(of: Type, values: Frames) -> Column:
    """Short ones as words; if most of the values are short, only the others are converted from texts."""
    numbers, is_short = _short_integers(values)
    count = int(np.count_nonzero(is_short))
    if count < len(values) / 2:
        return _read_bare(of, values)
    column = pa.array(numbers.astype(np.int32 if of.name == "INT" else np.int64))
    if count == len(values):
        return column, None
    others, are_good = _read_bare(of, values.take(~is_short))
    column = pc.replace_with_mask(column, pa.array(~is_short), others)
    if are_good is None:
        return column, None
    good = is_short.copy()
    good[~is_short] = are_good
    return column, good


def _read_timestamps(texts: pa.Array, *, has_zone: bool) -> Column:
    """All with a zone, or all without one; `has_zone` is a guess."""
    zoned, local = (utc_us(), _ZONED_TIMESTAMP), (pa.timestamp("us"), _LOCAL_TIMESTAMP)
    first, second = (zoned, local) if has_zone else (local, zoned)
    column, good = _cast(texts, first[0], None, first[1])
    if good is not None and np.count_nonzero(good) < len(texts) / 2:
        column, good = _cast(texts, *second)
    return column.cast(utc_us()), good


def _cast(texts: pa.Array, type_: pa.DataType, *patterns: str | None) -> Column:
    """The values of the texts that match the first pattern such that Arrow can convert these; None matches all."""
    for pattern in patterns:
        good = None if pattern is None else _matching(texts, pattern)
        try:
            column = (texts if good is None else _only(texts, pa.array(good))).cast(type_)
        except pa.ArrowInvalid:
            continue
        if is_valid(column):
            return column, good
    return pa.nulls(len(texts), type_), np.zeros(len(texts), dtype=bool)


def _only(texts: pa.Array, keep: pa.Array) -> pa.Array:
    """The texts where `keep` is true, and NULL elsewhere."""
    return pc.if_else(keep, texts, pa.scalar(None, pa.string()))


def _matching(texts: pa.Array, pattern: str) -> Mask | None:
    """Mark the texts that match or are NULL; None if all do."""
    matching = pc.match_substring_regex(texts, pattern)
    if pc.all(matching).as_py() is not False:
        return None
    good: Mask = matching.fill_null(True).to_numpy(zero_copy_only=False)
    return good


def _decimal(of: Type) -> str:
    whole = f"[1-9][0-9]{{0,{of.precision - of.scale - 1}}}|" if of.precision > of.scale else ""
    fraction = rf"(?:\.[0-9]{{1,{of.scale}}})?" if of.scale else ""
    return rf"\A-?(?:{whole}0){fraction}\z"


def _good_strings(texts: pa.Array) -> Mask | None:
    """Mark the texts that a JSON string without escapes may have between its quotes; None if all are good."""
    _, offsets, data = texts.buffers()
    content = np.frombuffer(memoryview(data) if data is not None else b"", dtype=np.uint8)
    if not len(content):
        return None
    is_fault = (content == _QUOTE) | (content == _BACKSLASH)
    is_utf8 = content.max() < _BEYOND_ASCII or are_all_utf8(texts)
    if is_utf8 and content.min() >= _SPACE and not is_fault.any():
        return None
    good = np.ones(len(texts), dtype=bool) if is_utf8 else are_utf8(texts.view(pa.binary()))
    faults = np.flatnonzero(is_fault | (content < _SPACE))
    starts = np.frombuffer(memoryview(offsets), dtype=np.int32)[: len(texts)]
    good[np.searchsorted(starts, faults, side="right") - 1] = False
    return good


def _short_integers(values: Frames) -> tuple[npt.NDArray[np.uint64], Mask]:
    """Numbers of 1 to 8 digits, read as words of 8 bytes, all digits of a number at once, and which ones these are."""
    block, ends = values.data, values.ends
    lengths = ends - values.starts
    is_short = (lengths >= 1) & (lengths <= _WORD) & (ends >= _WORD)
    if len(block) < _WORD:
        return np.zeros(len(values), dtype=np.uint64), is_short
    if not is_short.all():
        ends, lengths = np.where(is_short, ends, _WORD), np.where(is_short, lengths, _WORD)
    windows = np.ndarray(len(block) - _WORD + 1, dtype=f"V{_WORD}", buffer=block, strides=(1,))
    # In place where possible: the time of these operations is that of their memory.
    digits = windows[ends - _WORD].view("<u8")
    digits ^= np.uint64(0x3030303030303030)  # a byte of 0 to 9 for each digit
    shifts = ((_WORD - lengths) * 8).view(np.uint64)
    digits >>= shifts  # without the bytes before the number
    is_short &= (digits & np.uint64(0xFF) != 0) | (lengths == 1)  # the first digit
    digits <<= shifts
    is_short &= ((digits + np.uint64(0x7676767676767676)) | digits) & np.uint64(0x8080808080808080) == 0
    # Sums of pairs of digits, then of fours, then of all eight.
    even = digits >> np.uint64(8)
    digits *= np.uint64(10)
    even += digits
    odd = even >> np.uint64(16)
    for pairs, weights in ((even, 100 + (1_000_000 << 32)), (odd, 1 + (10_000 << 32))):
        pairs &= np.uint64(0x000000FF000000FF)
        pairs *= np.uint64(weights)
    even += odd
    even >>= np.uint64(32)
    return even, is_short
