"""Writes events/before.ndjson and events/after.ndjson: moves of people, some of them late, the same ones each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

PLACES = ["Oslo", "Rome", "Lima", "Cairo", "Kyoto", "Quito"]
START = datetime(2026, 1, 1, tzinfo=UTC)


def main() -> None:
    """Everybody moves several times within a year; one move in ten is reported a month later."""
    draw = random.Random(9)
    moves = []
    for _ in range(3000):
        at = START + timedelta(minutes=draw.randint(0, 300 * 1440))
        reported = at + timedelta(days=30 if draw.random() < 0.1 else 0)
        person = f"person-{draw.randint(1, 400)}"
        moves.append((reported, {"person": person, "place": draw.choice(PLACES), "at": at.isoformat()}))
    moves.sort(key=lambda move: move[0])
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    for name, part in (("before", moves[:1500]), ("after", moves[1500:])):
        (folder / f"{name}.ndjson").write_text("".join(json.dumps(move) + "\n" for _, move in part))


if __name__ == "__main__":
    main()
