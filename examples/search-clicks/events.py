"""Writes events/searches.ndjson and events/clicks.ndjson: an hour of a search page, the same one each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

TEXTS = {"lamp": 0.7, "desk": 0.6, "chair": 0.5, "vase": 0.3, "lmap": 0.05}  # how often a result is clicked
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def main() -> None:
    """Some searches lead to several clicks, many to none, and nobody finds what is misspelled."""
    draw = random.Random(13)
    searches, clicks = [], []
    for number in range(1000):
        at = START + timedelta(milliseconds=draw.randrange(3_500_000))
        text = draw.choices(list(TEXTS), weights=[9, 7, 5, 3, 1])[0]
        searches.append({"id": f"s{number}", "text": text, "at": at.isoformat()})
        while draw.random() < TEXTS[text]:
            at += timedelta(milliseconds=draw.randint(900, 30_000))
            clicks.append({"search": f"s{number}", "result": f"{text}-{draw.randint(1, 20)}", "at": at.isoformat()})
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    for name, events in (("searches", searches), ("clicks", clicks)):
        events.sort(key=lambda event: event["at"])
        (folder / f"{name}.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))


if __name__ == "__main__":
    main()
