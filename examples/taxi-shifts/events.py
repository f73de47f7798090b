"""Writes events/rides.ndjson: three days of 20 taxi drivers, the same ones each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 1, 2, tzinfo=UTC)


USUAL = ((0, 9),)  # hours after the begin of the day: from, to
UNUSUAL = {(7, 2): ((0, 14),), (13, 2): ((0, 5), (11, 16)), (17, 2): ((0, 5), (14, 19))}  # of a driver and a day


def main() -> None:
    """D7 drives for 14 hours, D13 pauses for 6 of 16 hours, which is not a break, and D17 for 8 hours and more."""
    draw = random.Random(11)
    rides = []
    for number in range(20):
        for day in range(3):
            begin = START + timedelta(days=day, minutes=draw.randint(0, 90))
            for first, last in UNUSUAL.get((number, day), USUAL):
                at = begin + timedelta(hours=first)
                while at < begin + timedelta(hours=last):
                    ended = at + timedelta(minutes=draw.randint(5, 40))
                    rides.append({"driver": f"D{number}", "started": at.isoformat(), "ended": ended.isoformat()})
                    at = ended + timedelta(minutes=draw.randint(1, 25))
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    rides.sort(key=lambda ride: ride["ended"])
    (folder / "rides.ndjson").write_text("".join(json.dumps(ride) + "\n" for ride in rides))


if __name__ == "__main__":
    main()
