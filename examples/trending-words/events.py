"""Writes events/messages.ndjson: short messages of half an hour, the same ones each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

_TEXT = "coffee train music rain lunch meeting friday garden weather football holiday kitchen summer bicycle"
USUAL = _TEXT.split()
START = datetime(2026, 3, 1, 18, tzinfo=UTC)


def main() -> None:
    """A word becomes popular for three minutes, then another one."""
    draw = random.Random(4)
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    with (folder / "messages.ndjson").open("w") as file:
        for second in range(1800):
            at = START + timedelta(seconds=second)
            popular = ["#eclipse", "#goal", "#storm"][second // 180 % 3]
            words = draw.choices(USUAL, k=draw.randint(2, 5)) + ([popular] if draw.random() < 0.3 else [])
            draw.shuffle(words)
            message = {"author": f"author-{draw.randint(1, 200)}", "text": ", ".join(words), "at": at.isoformat()}
            file.write(json.dumps(message) + "\n")


if __name__ == "__main__":
    main()
