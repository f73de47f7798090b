"""Writes events/readings.ndjson: half a day of ten machines, the same one each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 1, 6, tzinfo=UTC)


def main() -> None:
    """Machine M4 wears out: it gets warmer and vibrates more from hour to hour. Some readings lack a value."""
    draw = random.Random(15)
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    with (folder / "readings.ndjson").open("w") as file:
        for minute in range(0, 720, 2):
            for number in range(10):
                wear = minute / 720 if number == 4 else 0
                reading = {
                    "machine": f"M{number}",
                    "temperature": round(draw.gauss(60 + 15 * wear, 6), 1),
                    "vibration": round(draw.gauss(2.8 + 2.5 * wear, 0.6), 2) if draw.random() > 0.01 else None,
                    "rpm": draw.choice([1300, 1500, 1600]),
                    "at": (START + timedelta(minutes=minute, seconds=number)).isoformat(),
                }
                file.write(json.dumps(reading) + "\n")


if __name__ == "__main__":
    main()
