"""The generator: the same seed gives the same bytes, and its knowledge of them is right."""

import json
from datetime import datetime

import numpy as np
import orjson
import pytest

from headrace.define import catalog
from headrace.parse.event_parser import Parser
from headrace.parse.frames import frame_lines
from headrace.tools.demo.shop_server import shop_definitions
from headrace.tools.demo.traffic import KINDS, OPENING, SPEED, STREAMS, Traffic, spoil
from tests.calls import calls_of

TRAFFIC = Traffic(seed=3, seconds=4, rate=3_000)
ARRIVED_US = round(OPENING.timestamp() * 1_000_000) + 3_600_000_000


def all_batches(traffic=TRAFFIC):
    return [batch for stream in STREAMS for batch in traffic.batches(stream)]


def test_the_same_seed_gives_the_same_events():
    assert all_batches() == all_batches(Traffic(seed=3, seconds=4, rate=3_000))
    assert all_batches()[0].body != all_batches(Traffic(seed=4, seconds=4, rate=3_000))[0].body


@pytest.mark.parametrize(("seconds", "rate"), [(4, 3_000), (1, 10), (0.1, 1), (30, 20_000)])
def test_sizes_add_up_to_the_requested_events(seconds, rate):
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
                values = truth._asdict()
                assert datetime.fromisoformat(event.pop("at")).timestamp() == values.pop("at_us") / 1e6
                if event.get("amount") is not None:
                    event["amount"] = type(values["amount"])(str(event["amount"]))
                assert {name: event.get(name) for name in values} == values


def test_the_traffic_has_all_difficult_cases():
    batches = all_batches()
    truths = [truth for batch in batches for truth in batch.truths if truth is not None]
    lines = [line for batch in batches for line in batch.body.split(b"\n")]
    visits = [truth for truth in truths if hasattr(truth, "page")]
    assert len(lines) - len(set(lines)) > 50, "duplicates"
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
def test_headrace_refuses_exactly_the_invalid_events(stream):
    parser = Parser(catalog.parse(shop_definitions()).streams[stream])
    invalid_count = 0
    for batch in TRAFFIC.batches(stream):
        if len(batch):
            reasons = parser.parse(frame_lines(batch.body), ARRIVED_US).reasons
            indexes = [] if reasons is None else np.flatnonzero(reasons.is_valid()).tolist()
            assert indexes == batch.broken
            invalid_count += len(indexes)
    assert invalid_count


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("choice", range(len(KINDS)), ids=list(KINDS))
def test_headrace_refuses_each_kind_with_a_reason(stream, choice):
    parser = Parser(catalog.parse(shop_definitions()).streams[stream])
    batch = next(TRAFFIC.batches(stream))
    index = next(i for i, truth in enumerate(batch.truths) if truth is not None)
    good = batch.body.split(b"\n")[index]
    result = parser.parse(frame_lines(good + b"\n" + spoil(orjson.loads(good), choice)), ARRIVED_US)
    assert result.reasons is not None
    assert result.reasons.to_pylist()[0] is None
    assert result.reasons.to_pylist()[1]


def test_it_is_fast_enough_to_leave_cpu_for_the_server():
    traffic = Traffic(seconds=1, rate=20_000)
    count = sum(map(len, all_batches(traffic)))
    assert calls_of(lambda: all_batches(traffic)) < 20 * count  # 10 for each event
