"""Writes events/prices.ndjson: prices that change at random, some of them out of order, the same ones each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def main() -> None:
    """A price of each symbol about every 20 seconds, for six hours."""
    draw = random.Random(5)
    cents = {"ACME": 10_000, "GLOBEX": 4_000, "INITECH": 800}
    prices = []
    for second in range(0, 6 * 3600, 20):
        for symbol in cents:
            cents[symbol] = max(1, cents[symbol] + draw.randint(-25, 25))
            at = START + timedelta(seconds=second + draw.uniform(0, 15))
            prices.append((draw.random() * 60 + second, {"symbol": symbol, "price": cents[symbol] / 100,
                                                         "at": at.isoformat()}))  # fmt: skip
    prices.sort(key=lambda price: price[0])  # by arrival
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    (folder / "prices.ndjson").write_text("".join(json.dumps(price) + "\n" for _, price in prices))


if __name__ == "__main__":
    main()
