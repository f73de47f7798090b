"""`headrace generate`: the same seed gives the same events, sent once however often the command is killed."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.api.connect import connect
from headrace.cli.app import run
from headrace.errors import UsageError
from headrace.ingest.generated_values import BLOCK, Draws, default_rule, parse_rule, values
from headrace.language.token_cursor import parse_type
from tests.surfaces.conftest import HEADRACE, Ran, Served
from tests.unit.transport.journals import lines_of
from tests.waiting import wait_until

Command = Callable[..., Ran]
TYPES = """
CREATE STREAM all_types (
  s STRING, b BOOLEAN, i INT, l BIGINT, d DOUBLE, m DECIMAL(6,2), day DATE, at TIMESTAMP NOT NULL,
  a ARRAY<INT>, r STRUCT<x: DOUBLE, y: STRING>, p MAP<STRING, INT>,
  deep STRING FROM '$.user.ids[1]', upper_s STRING AS upper(s),
  WATERMARK FOR at AS at
);
CREATE STREAM lines (value STRING, word STRING AS split(value, ' ')[0]) FORMAT TEXT;
"""


@pytest.fixture
def typed(applied: Path, serve: Callable[..., Served]) -> Served:
    (applied / "definitions" / "types.sql").write_text(TYPES)
    assert run(["apply", "--yes", "-w", str(applied)]) == 0
    return serve(applied)


def stored(served: Served, stream: str) -> list[bytes]:
    text = lines_of(served.runtime.workspace.journal(stream), served.ingest(stream).transport.end)
    return [line for line in text.splitlines() if line.strip()]


def test_events_of_all_types_are_accepted(headrace: Command, typed: Served) -> None:
    result = headrace("generate", "all_types", "--events", 3000, "--at-once", "--json", "-w", typed.url)
    assert (result.code, result.json["accepted"]) == (0, 3000), result.err
    with connect(typed.url) as connection:  # here, what cannot be parsed would be refused
        lines = stored(typed, "all_types")
        assert connection.send("all_types", b"\n".join(lines)).refused == []
    events = [orjson.loads(line) for line in lines]
    assert {len(event["user"]["ids"]) for event in events} == {2}
    assert len({event["s"] for event in events}) == 100
    assert events[1000]["at"] == "2026-01-01T00:00:01.000000Z"
    result = headrace("generate", "lines", "--events", 10, "--field", "value=words(3)", "-w", typed.url)
    assert result.code == 0
    assert {len(line.split()) for line in stored(typed, "lines")} == {3}


def test_the_same_command_continues_and_the_same_seed_repeats(headrace: Command, typed: Served) -> None:
    options = ["--seed", "7", "--rate", "5000", "--field", "i=sequence()", "-w", typed.url]
    command = [str(HEADRACE), "generate", "all_types", *options]
    for count, number in ((1, signal.SIGKILL), (2500, signal.SIGKILL), (5000, signal.SIGINT)):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(lambda count=count: len(stored(typed, "all_types")) > count)
        process.send_signal(number)
        _, err = process.communicate(timeout=180)
        assert process.returncode == (0 if number == signal.SIGINT else -number), err
    sent = len(stored(typed, "all_types"))
    result = headrace("generate", "all_types", "--events", sent + 2000, "--at-once", *options)
    assert "2,000 events sent in" in result.out
    assert f"{sent:,} events sent before" in result.out
    result = headrace("generate", "all_types", "--events", sent + 2000, *options)
    assert f"Nothing new: {sent + 2000:,} events sent before" in result.out
    lines = stored(typed, "all_types")
    assert [orjson.loads(line)["i"] for line in lines] == list(range(sent + 2000))
    result = headrace("generate", "all_types", "--events", 2000, "--again", "--at-once", *options)
    assert stored(typed, "all_types")[-2000:] == lines[:2000]
    with connect(typed.url) as connection:
        assert connection.generate("all_types", 500, seed=7, rate=5000, fields={"i": "sequence()"}).accepted == 0
        assert connection.generate("all_types", 500, seed=8).accepted == 500
    assert not set(stored(typed, "all_types")[-500:]) & set(lines)


def test_an_interrupted_command_says_how_many_are_kept(typed: Served) -> None:
    command = [str(HEADRACE), "generate", "all_types", "--events", "1000000", "--rate", "100", "-w", typed.url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: stored(typed, "all_types"))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=180)
    assert process.returncode == 130
    assert f"{len(stored(typed, 'all_types'))} event" in err
    assert "the same command continues where it stopped" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--field", "x=words(3)"], "stream 'all_types' has no field 'x' to generate; expected s, b, i"),
        (["--field", "upper_s=words(3)"], "has no field 'upper_s'"),
        (["--field", "s"], "--field 's' is not a rule of a field; expected NAME=RULE"),
        (["--field", "s=often"], "field 's': 'often' is not a rule; expected such as choice"),
        (["--field", "s=choise(a)"], "there is no rule 'choise'"),
        (["--field", "s=choise(a)"], "did you mean 'choice'?"),
        (["--field", "b=normal(1, 2)"], "field 'b': normal makes no BOOLEAN; expected a field of STRING, INT"),
        (
            ["--field", "i=choice(1, two)"],
            "field 'i': a value of choice is not valid for the field; found two; expected INT",
        ),
        (["--field", "i=uniform(9, 1)"], "expected uniform(LEAST, GREATEST)"),
        (["--field", "i=uniform(1)"], "expected uniform(LEAST, GREATEST)"),
        (["--field", "i=zipf(0)"], "expected zipf(COUNT)"),
        (["--field", "at=time(5%, soon)"], "expected time() or time(SHARE%, LONGEST DELAY)"),
        (["--field", "at=time() null 5%"], "field 'at' is NOT NULL"),
        (["--field", "s=words(2) null 500%"], "is more than all events"),
        (["--field", "a=zipf(3)"], "zipf makes no ARRAY<INT>"),
        (["--rate", "0"], "the rate 0 is not possible"),
        (["--events", "0"], "0 events cannot be generated"),
        (["--seed", "-1"], "the seed -1 is not possible"),
        (["--start", "soon"], "'soon' is not a time"),
    ],
)
def test_a_mistake_is_one_sentence(headrace: Command, typed: Served, arguments: list[str], words: str) -> None:
    result = headrace("generate", "all_types", *arguments, "-w", typed.url)
    assert result.code == 2
    assert words in result.err, result.err
    assert not stored(typed, "all_types")


def draw(rule: str, of: str, count: int = 20_000) -> list[Any]:
    import numpy as np

    kind = parse_type(of)
    made: list[Any] = []
    for block in range(count // BLOCK):
        times = np.arange(block * BLOCK, (block + 1) * BLOCK) * 1_000_000
        parsed = parse_rule("f", kind, rule, nullable=True) if rule else default_rule("f", kind)
        made += values(parsed, kind, Draws(1, "f", block), block * BLOCK, times)
    return made


def test_rules_have_their_distributions() -> None:
    methods = Counter(draw("choice(GET:9, POST:1)", "STRING"))
    assert 8 < methods["GET"] / methods["POST"] < 10
    assert 0.08 < draw("uniform(1, 6) null 10%", "INT").count(None) / 20_000 < 0.12
    assert set(draw("uniform(1, 6)", "INT")) == {1, 2, 3, 4, 5, 6}
    normal = draw("normal(20, 5)", "DOUBLE")
    mean = sum(normal) / len(normal)
    assert abs(mean - 20) < 0.2
    assert abs((sum((x - mean) ** 2 for x in normal) / len(normal)) ** 0.5 - 5) < 0.2
    assert abs(sum(draw("exponential(3)", "DOUBLE")) / 20_000 - 3) < 0.1
    pages = Counter(draw("zipf(50, page)", "STRING")).most_common()
    assert (pages[0][0], len(pages)) == ("page-0", 50)
    assert 1.7 < pages[0][1] / pages[1][1] < 2.3
    late = [at for at in draw("time(5%, 1 hour)", "TIMESTAMP") if ".000000Z" not in at]  # others are of whole seconds
    assert 0.04 < len(late) / 20_000 < 0.06
    assert draw("", "BOOLEAN") == draw("", "BOOLEAN")


@settings(deadline=None)
@given(text=st.text(max_size=30), of=st.sampled_from(["STRING", "INT", "DOUBLE", "TIMESTAMP", "ARRAY<INT>"]))
def test_any_text_is_a_rule_or_a_usage_error(text: str, of: str) -> None:
    for rule in (text, f"choice({text})", f"uniform({text})", f"words({text})", f"time({text})"):
        with suppress(UsageError):
            parse_rule("f", parse_type(of), rule, nullable=True)
