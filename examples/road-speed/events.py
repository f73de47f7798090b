"""Writes events/positions.ndjson: an hour of vehicles on two roads, the same one each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 1, 7, tzinfo=UTC)


def main() -> None:
    """Each vehicle sends its position every 20 seconds. There is a jam on A1 from km 5 to 7, from 07:15 to 07:40."""
    draw = random.Random(16)
    positions = []
    for number in range(300):
        road, km, usual = draw.choice(["A1", "B7"]), 0.0, draw.gauss(85, 12)
        second = draw.randrange(3300)
        while km < 10 and second < 3600:
            jam = road == "A1" and 5 <= km < 7 and 900 <= second < 2400
            kmh = max(0.0, round(draw.gauss(12 if jam else usual, 4), 1))
            at = START + timedelta(seconds=second)
            positions.append(
                {"vehicle": f"v{number}", "road": road, "km": round(km, 3), "kmh": kmh, "at": at.isoformat()}
            )
            second, km = second + 20, km + kmh / 180
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    positions.sort(key=lambda position: position["at"])
    (folder / "positions.ndjson").write_text("".join(json.dumps(position) + "\n" for position in positions))


if __name__ == "__main__":
    main()
