"""A day of Wikipedia edits, sent as it is with `headrace send`: the known answers come back."""

import gzip
import json
from collections import Counter, defaultdict

import pytest

from headrace.tools.demo.final_check import STATED_ERROR


@pytest.fixture(scope="module")
def edits(data, reader, headrace, tmp_path_factory):
    """The edits, sent from a file and in every view."""
    raw = gzip.decompress((data / "events" / "wikiticker-2015-09-12-sampled.json.gz").read_bytes())
    file = tmp_path_factory.mktemp("wikipedia") / "edits.ndjson"
    file.write_bytes(raw)
    reply = json.loads(headrace("send", "edits", str(file), "--wait", "--json"))
    assert (reply["accepted"], reply["complete"], reply["stalled"]) == (39_244, True, [])
    assert reader.ask("totals")["freshness_ms"] == 0
    return [json.loads(line) for line in raw.splitlines()]


def test_totals(edits, reader):
    (row,) = reader.ask("totals")["rows"]
    assert (row["edits"], row["added"], row["robots"], row["channels"]) == (39_244, 9_385_573, 15_420, 51)
    assert abs(row["users"] - 10_531) <= STATED_ERROR * 10_531


def test_the_file_has_no_dead_letters(edits, reader):
    stream = next(stream for stream in reader.status()["streams"] if stream["name"] == "edits")
    assert (stream["events"], stream["dead_letters"]) == (len(edits), 0)


def test_each_channel_and_hour(edits, reader):
    groups = defaultdict(list)
    for edit in edits:
        groups[(edit["channel"], edit["time"][:13] + ":00:00Z")].append(edit)
    served = {(row["channel"], row["window_start"]): row for row in reader.all_rows("channels")}
    assert set(served) == set(groups)
    for group, members in groups.items():
        row = served[group]
        assert row["edits"] == len(members)
        assert row["placed"] == sum(edit["cityName"] is not None for edit in members)
        assert row["added"] == sum(edit["added"] for edit in members)
        assert row["delta"] == sum(edit["delta"] for edit in members)
        assert row["most_deleted"] == max(edit["deleted"] for edit in members)
        assert row["mean_added"] == pytest.approx(row["added"] / row["edits"], rel=1e-12)
        users = len({edit["user"] for edit in members})
        assert abs(row["users"] - users) <= (0 if users < 150 else 2 * STATED_ERROR * users)


def test_channels_of_the_whole_day(edits, reader):
    rows = reader.ask("channels", by="channel", window="1d")["rows"]
    assert len(rows) == 51
    assert sum(row["added"] for row in rows) == 9_385_573
    (all_of_them,) = reader.ask("channels", by="", window="1d")["rows"]
    assert all_of_them["edits"] == 39_244
    assert abs(all_of_them["users"] - 10_531) <= 2 * STATED_ERROR * 10_531


def test_top_pages(edits, reader):
    (row,) = reader.ask("top_pages")["rows"]
    counts = Counter(edit["page"] for edit in edits)
    exact = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:10]
    assert [(page["item"], page["count"]) for page in row["pages"]] == exact
    error = 2.7 / 1_000 * len(edits)  # as it is stated
    assert all(counts[page["item"]] <= page["count"] <= counts[page["item"]] + error for page in row["rough"])
    assert row["channels"] == 51
    assert float(row["robots"]) == pytest.approx(100 * 15_420 / 39_244, rel=1e-6)
