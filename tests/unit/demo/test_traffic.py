"""The generator: the same seed gives the same bytes, and its knowledge of them is right."""

import json
import time
from datetime import datetime

import numpy as np
import orjson
import pytest

from headrace.define import catalog
from headrace.demo.broken import KINDS, spoil
from headrace.demo.server import shop_definitions
from headrace.demo.traffic import OPENING, SPEED, STREAMS, Traffic
from headrace.parse.frames import frame_lines
from headrace.parse.parser import Parser

TRAFFIC = Traffic(seed=3, seconds=4, rate=3_000)
ARRIVED_US = round(OPENING.timestamp() * 1_000_000) + 3_600_000_000


def all_batches(traffic=TRAFFIC):
    return [batch for stream in STREAMS for batch in traffic.batches(stream)]


def test_the_same_seed_gives_the_same_events():
    assert all_batches() == all_batches(Traffic(seed=3, seconds=4, rate=3_000))
    assert all_batches()[0].body != all_batches(Traffic(seed=4, seconds=4, rate=3_000))[0].body


@pytest.mark.parametrize(("seconds", "rate"), [(4, 3_000), (1, 10), (0.1, 1), (30, 20_000)])
def test_sizes_add_up_to_what_was_asked(seconds, rate):
    sizes = Traffic(seconds=seconds, rate=rate).sizes()
    assert sum(sizes) == round(seconds * rate)
    assert min(sizes) >= 0


def test_the_load_has_bursts():
    sizes = Traffic(seconds=30, rate=4_000).sizes()
    assert max(sizes) > 2 * sum(sizes) / len(sizes)


def test_every_line_has_its_truth():
    for batch in all_batches():
        lines = batch.body.split(b"\n")
        assert len(lines) == len(batch) == len(batch.truths)
        for line, truth in zip(lines, batch.truths, strict=True):
            if truth is not None:
                event = json.loads(line)
                told = truth._asdict()
                assert datetime.fromisoformat(event.pop("at")).timestamp() == told.pop("at_us") / 1e6
                if event.get("amount") is not None:
                    event["amount"] = type(told["amount"])(str(event["amount"]))
                assert {name: event.get(name) for name in told} == told


def test_the_traffic_has_all_that_is_hard():
    batches = all_batches()
    truths = [truth for batch in batches for truth in batch.truths if truth is not None]
    lines = [line for batch in batches for line in batch.body.split(b"\n")]
    visits = [truth for truth in truths if hasattr(truth, "page")]
    assert len(lines) - len(set(lines)) > 50, "twins"
    assert any(not line.isascii() for line in lines)
    assert any(b"+05:30" in line for line in lines)
    assert any(visit.page is None for visit in visits)
    assert any((visit.bytes or 0) > 1 << 32 for visit in visits)
    assert sum(batch.late for batch in batches) > 0.02 * len(lines)
    times = [visit.at_us for visit in visits]
    assert times != sorted(times)
    assert max(times) - min(times) > 3_600_000_000, "some are hours late"
    assert max(times) < (OPENING.timestamp() + TRAFFIC.seconds * SPEED) * 1e6


@pytest.mark.parametrize("stream", STREAMS)
def test_headrace_refuses_just_the_broken_ones(stream):
    parser = Parser(catalog.parse(shop_definitions()).streams[stream])
    broken = 0
    for batch in TRAFFIC.batches(stream):
        if len(batch):
            reasons = parser.parse(frame_lines(batch.body), ARRIVED_US).reasons
            refused = [] if reasons is None else np.flatnonzero(reasons.is_valid()).tolist()
            assert refused == batch.broken
            broken += len(refused)
    assert broken


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("choice", range(len(KINDS)), ids=list(KINDS))
def test_headrace_refuses_each_kind_for_a_reason_of_its_own(stream, choice):
    parser = Parser(catalog.parse(shop_definitions()).streams[stream])
    batch = next(TRAFFIC.batches(stream))
    index = next(i for i, truth in enumerate(batch.truths) if truth is not None)
    good = batch.body.split(b"\n")[index]
    parsed = parser.parse(frame_lines(good + b"\n" + spoil(orjson.loads(good), choice)), ARRIVED_US)
    assert parsed.reasons is not None
    assert parsed.reasons.to_pylist()[0] is None
    assert parsed.reasons.to_pylist()[1]


def test_it_is_quick_enough_to_leave_the_machine_to_the_server():
    traffic = Traffic(seconds=2, rate=20_000)
    begun = time.process_time()
    made = sum(len(batch) for batch in all_batches(traffic))
    assert made / (time.process_time() - begun) > 40_000  # twice the most that is ever asked of it
