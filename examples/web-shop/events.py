"""Writes events/customers.csv, events/upgrades.csv and events/orders-*.ndjson, the same ones each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 1, 8, tzinfo=UTC)
PLANS = {"free": 20, "basic": 60, "pro": 200}  # usual amounts


def main() -> None:
    """Four hours of orders, then 40 customers change to another plan, then four more hours. Some order as guests."""
    draw = random.Random(10)
    customers = {f"c{n}": draw.choices(list(PLANS), weights=[6, 3, 1])[0] for n in range(200)}
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    _write(folder / "customers.csv", customers)
    number = 0
    for part, hours in (("before", 4), ("after", 4)):
        with (folder / f"orders-{part}.ndjson").open("w") as file:
            for second in range(0, hours * 3600, 12):
                customer = f"c{draw.randint(0, 209)}"  # the last ten are guests
                amount = round(draw.expovariate(1 / PLANS[customers.get(customer, "free")]) + 1, 2)
                at = START + timedelta(hours=4 if part == "after" else 0, seconds=second)
                order = {"id": number, "customer": customer, "amount": amount, "at": at.isoformat()}
                file.write(json.dumps(order) + "\n")
                number += 1
        if part == "before":
            upgrades = dict.fromkeys(draw.sample(sorted(customers), 40), "pro")
            customers |= upgrades
            _write(folder / "upgrades.csv", upgrades)


def _write(path: Path, customers: dict[str, str]) -> None:
    path.write_text("id,plan,city\n" + "".join(f"{name},{plan},Oslo\n" for name, plan in customers.items()))


if __name__ == "__main__":
    main()
