"""Writes events/shipments.csv and events/sales.ndjson: a month of a small shop, the same one each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

ITEMS = {"pen": 10, "cup": 8, "lamp": 7, "chair": 5, "desk": 5, "shelf": 4, "clock": 3, "vase": 2}  # how well they sell
START = datetime(2026, 3, 2, tzinfo=UTC)


def main() -> None:
    """Shipments come once a week; some items sell better than others."""
    draw = random.Random(8)
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    with (folder / "shipments.csv").open("w") as file:
        file.write("item,quantity,at\n")
        for week in range(4):
            for item in ITEMS:
                at = START + timedelta(days=7 * week, hours=draw.randint(6, 9))
                file.write(f"{item},{ITEMS[item] * draw.randint(17, 21)},{at.isoformat()}\n")
    with (folder / "sales.ndjson").open("w") as file:
        for minute in range(0, 28 * 1440, 20):
            item = draw.choices(list(ITEMS), weights=list(ITEMS.values()))[0]
            at = START + timedelta(minutes=minute)
            file.write(json.dumps({"item": item, "quantity": draw.randint(1, 2), "at": at.isoformat()}) + "\n")


if __name__ == "__main__":
    main()
