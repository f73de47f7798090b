"""Times by patterns: what the workers read is what Spark's to_timestamp gives, for texts that fit and for others."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa

from headrace.engine.duckdb_views import duckdb_expression
from headrace.engine.spark_relations import with_computed
from headrace.engine.spark_views import for_spark
from headrace.engine.time_functions import read_times, register
from headrace.engine.zones import ABBREVIATIONS
from headrace.language.check import parse_expression
from headrace.language.datetime_patterns import MONTHS, is_ours, refuse_time_pattern
from headrace.types import STRING

SEED = 2
PATTERNS = 700
TEXTS = 12
# What an element writes for a time, right or nearly so.
ELEMENTS: dict[str, Any] = {
    "yyyy": lambda t: f"{t.year:04}", "yy": lambda t: f"{t.year % 100:02}", "y": lambda t: f"{t.year}",
    "yyyyy": lambda t: f"{t.year:05}", "MM": lambda t: f"{t.month:02}", "M": lambda t: f"{t.month}",
    "MMM": lambda t: MONTHS[t.month - 1][:3], "MMMM": lambda t: MONTHS[t.month - 1], "LL": lambda t: f"{t.month:02}",
    "dd": lambda t: f"{t.day:02}", "d": lambda t: f"{t.day}", "D": lambda t: f"{t.timetuple().tm_yday}",
    "DDD": lambda t: f"{t.timetuple().tm_yday:03}", "DD": lambda t: f"{t.timetuple().tm_yday:02}",
    "HH": lambda t: f"{t.hour:02}", "H": lambda t: f"{t.hour}", "hh": lambda t: f"{t.hour % 12 or 12:02}",
    "h": lambda t: f"{t.hour % 12 or 12}", "K": lambda t: f"{t.hour % 12}", "KK": lambda t: f"{t.hour % 12:02}",
    "k": lambda t: f"{t.hour or 24}", "kk": lambda t: f"{t.hour or 24:02}",
    "a": lambda t: "AM" if t.hour < 12 else "PM",
    "mm": lambda t: f"{t.minute:02}", "m": lambda t: f"{t.minute}", "ss": lambda t: f"{t.second:02}",
    "s": lambda t: f"{t.second}", "S": lambda t: f"{t.microsecond // 100_000}",
    "SSS": lambda t: f"{t.microsecond // 1000:03}", "SSSSSS": lambda t: f"{t.microsecond:06}",
    "SSSSSSSSS": lambda t: f"{t.microsecond * 1000 + 7:09}",
    "X": lambda t: ("Z", "+01", "-0530")[t.second % 3], "XX": lambda t: ("Z", "+0100", "-0530")[t.second % 3],
    "XXX": lambda t: ("Z", "+01:00", "-05:30")[t.second % 3], "XXXX": lambda t: ("Z", "+010015")[t.second % 2],
    "XXXXX": lambda t: ("Z", "+01:00:15", "-05:30")[t.second % 3], "x": lambda t: ("+00", "+01", "-0530")[t.second % 3],
    "xx": lambda t: ("+0000", "+0130")[t.second % 2], "xxx": lambda t: ("+00:00", "+01:30")[t.second % 2],
    "Z": lambda t: ("+0000", "+0100", "-1800", "+1900")[t.second % 4], "ZZZZZ": lambda t: ("Z", "+01:00")[t.second % 2],
    # Not CET and EST: newer time zone data has other times of them before 1900 than Java 17.
    "VV": lambda t: ("UTC", "Europe/Paris", "america/new_york", "Z", "+01:30", "GMT+02:00", "Asia/Tokyo",
                     "Australia/Lord_Howe", "Asia/Kolkata", "UTC+1", "Europe/Pari", "Etc/GMT+5")[t.second % 12],
}  # fmt: skip
DATES = (("yyyy", "MM", "dd"), ("yyyy", "M", "d"), ("d", "MMM", "yyyy"), ("MMMM", "d", "yyyy"), ("M", "d", "yy"),
         ("yyyy", "DDD"), ("MMM", "d"), ("yyyy", "MM"), ("dd", "MMM", "yyyy"), ("yyyyy", "LL", "dd"),
         ("yyyy", "MM", "dd", "DDD"), ("yyyy", "M", "d", "DD"))  # fmt: skip
CLOCKS = (("HH", "mm", "ss"), ("H", "m", "s"), ("h", "mm", "a"), ("hh", "mm", "ss", "a"), ("K", "mm", "a"), ("k", "mm"),
          ("HH", "mm", "ss", "SSS"), ("HH", "mm", "ss", "SSSSSS"), ("HH", "mm", "ss", "SSSSSSSSS"), ("H", "a"),
          ("h", "m"), ("HH", "mm", "ss", "S"), ("a",), ("HH", "ss"), ("kk", "KK", "a"), ())  # fmt: skip
ZONES = ("X", "XX", "XXX", "XXXX", "XXXXX", "x", "xx", "xxx", "Z", "ZZZZZ", "VV", "", "", "", "")
SEPARATORS = ("-", "/", ".", " ", ":", "", "", ", ", "'T'", "' at '", "''", "年", "_")
FAR = re.compile(r"[+-]\d{6}|^\d{6,}\D|\D\d{6,}$")  # Spark fails for years that far away
ODD = ("", " ", "x", "0", "9", "-", "+", ":", "A", "pm", "٣", "ſ", "K", "é", "00", "30", "31", "60", "Sept")


def pattern_of(chance: random.Random) -> list[str]:
    """Elements and separators; some of them in [ ]."""
    parts = [chance.choice(DATES), chance.choice(CLOCKS)]
    if chance.random() < 0.2:
        parts.reverse()
    elements: list[str] = []
    for element in [*parts[0], "|", *parts[1], "|", chance.choice(ZONES)]:
        last_date = element == "|"
        if last_date:
            elements.append(chance.choice(SEPARATORS))
        elif element:
            elements += [element, chance.choice(SEPARATORS[:7]) if chance.random() < 0.9 else ""]
    if chance.random() < 0.3:
        at = chance.randrange(len(elements))
        elements.insert(at, "[")
        elements.insert(chance.randrange(at + 1, len(elements) + 1), "]")
    if chance.random() < 0.1:
        elements.append(chance.choice([*ELEMENTS, "[", "'x'"]))
    return elements


def text_of(chance: random.Random, elements: list[str], time: datetime) -> str:
    """A text that the pattern is for; sometimes without what is in [ ], or with something changed."""
    parts, leave_out, inside = [], chance.random() < 0.4, False
    for element in elements:
        if element in ("[", "]"):
            inside = element == "["
        elif not (inside and leave_out):
            written = ELEMENTS[element](time) if element in ELEMENTS else element.replace("''", "\0").replace("'", "")
            parts.append(written.replace("\0", "'"))
    text = "".join(parts)
    if chance.random() < 0.3:
        text = chance.choice([text.lower(), text.upper(), text.swapcase()])
    for _ in range(chance.choice([0, 0, 0, 1, 1, 2])):
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(ODD) + text[at + chance.randrange(3) :]
    return text


def time_of(chance: random.Random) -> datetime:
    special = [(2024, 2, 29), (2023, 2, 28), (2024, 12, 31), (1, 1, 1), (9999, 12, 31), (1999, 12, 31), (2024, 3, 31),
               (2024, 10, 27), (2024, 11, 3), (2024, 3, 10)]  # fmt: skip
    day = datetime(*chance.choice(special), tzinfo=UTC)
    if chance.random() < 0.5:
        day = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(days=chance.randrange(12_000))
    seconds = chance.choice([0, 9_000, 5_400, 43_200, 86_399, chance.randrange(86_400)])
    return day + timedelta(seconds=seconds, microseconds=chance.choice([0, 5, 123_456, 999_999]))


def pairs() -> list[tuple[str, str]]:
    chance = random.Random(SEED)
    made = []
    while len(made) < PATTERNS * TEXTS:
        elements = pattern_of(chance)
        pattern = "".join(elements)
        # Where there are fractions, Spark itself splits the pattern at quotes, and loses or doubles some.
        misread = "S" in pattern and ("'''" in pattern or pattern.endswith("''"))
        if refuse_time_pattern(pattern) is None and not is_ours(pattern) and not misread:
            texts = [text_of(chance, elements, time_of(chance)) for _ in range(TEXTS)]
            made += [(pattern, text) for text in texts if not FAR.search(text)]
    return made


def test_texts_are_read_as_spark_reads_them(spark: Any) -> None:
    made = pairs()
    frame = spark.createDataFrame([(at, *pair) for at, pair in enumerate(made)], "at INT, pattern STRING, text STRING")
    value = "unix_micros(to_timestamp(text, pattern))"
    expected = [row.us for row in frame.selectExpr("at", f"{value} AS us").orderBy("at").collect()]
    wrong, read = [], 0
    for pattern in dict.fromkeys(pattern for pattern, _ in made):
        places = [at for at, pair in enumerate(made) if pair[0] == pattern]
        times = read_times(pa.array([made[at][1] for at in places]), pattern).to_pylist()
        for at, time in zip(places, times, strict=True):
            read += expected[at] is not None
            if _in_years(time) != _in_years(expected[at]):
                wrong.append((*made[at], expected[at], time))
    assert not wrong, "\n".join(map(str, wrong))
    assert 0.3 < read / len(made) < 0.9  # else most texts would test nothing


def _in_years(us: int | None) -> int | None:
    """NULL outside of the years 1 to 9999, as everywhere."""
    return us if us is not None and -62_135_596_800_000_000 <= us <= 253_402_300_799_999_999 else None


LANES = {  # formats whose texts Spark itself cannot read, reads differently, or fails for
    "E, d MMM yyyy HH:mm:ss z": ["Tue, 2 Jan 2024 03:04:05 GMT", "Mon, 2 Jan 2024 03:04:05 GMT",
                                 "tue, 2 jan 2024 03:04:05 pst", "Tue, 2 Jan 2024 03:04:05 BST", None],
    "EEEE d MMMM yyyy": ["Tuesday 2 January 2024", "Tue 2 January 2024", "Wednesday 2 January 2024"],
    "yyyy-MM-dd": ["+999999-01-01", "2024-02-29", "2023-02-29", "-0001-01-01", "0000-01-01", ""],
}  # fmt: skip


def test_both_lanes_read_what_spark_cannot(spark: Any) -> None:
    for pattern, texts in LANES.items():
        expression = parse_expression(f"to_timestamp(text, '{pattern}')", {"text": STRING})
        (for_job,), computed = for_spark([expression], {"text": STRING})
        frame = spark.createDataFrame([(text,) for text in texts], "text STRING").coalesce(1)
        rows = with_computed(frame, computed).selectExpr(f"unix_micros({for_job.sql}) AS us").collect()
        translated = duckdb_expression(expression, {"text": STRING})
        with duckdb.connect(config={"threads": 1}) as database:
            register(database)
            database.execute("SET TimeZone = 'UTC'")
            database.register("events", pa.table({"text": pa.array(texts, pa.string())}))
            fused = [us for (us,) in database.execute(f"SELECT epoch_us({translated}) FROM events").fetchall()]
        assert [row.us for row in rows] == fused
        assert [text for text, us in zip(texts, fused, strict=True) if us is not None] == READABLE[pattern]


READABLE = {
    "E, d MMM yyyy HH:mm:ss z": ["Tue, 2 Jan 2024 03:04:05 GMT", "tue, 2 jan 2024 03:04:05 pst"],
    "EEEE d MMMM yyyy": ["Tuesday 2 January 2024"],
    "yyyy-MM-dd": ["2024-02-29"],
}


def test_an_abbreviation_is_the_zone_that_spark_reads(spark: Any) -> None:
    times = ("2024-01-02 03:04:05", "2024-07-02 03:04:05", "2024-03-10 02:30:00", "2024-11-03 01:30:00")
    texts = [f"{time} {name}" for name in ABBREVIATIONS for time in times]
    frame = spark.createDataFrame([(text,) for text in texts], "text STRING").coalesce(1)
    rows = frame.selectExpr("unix_micros(to_timestamp(text, 'yyyy-MM-dd HH:mm:ss z')) AS us").collect()
    assert read_times(pa.array(texts), "yyyy-MM-dd HH:mm:ss z").to_pylist() == [row.us for row in rows]
