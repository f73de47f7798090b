"""Writes events/visits.ndjson: the visits of a summer, some of them late, the same ones each time."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

DOMAINS = ["shop.example.com", "blog.example.com", "example.org"]
PAGES = ["/home", "/search", "/cart", "/help"]
START = datetime(2025, 6, 1, tzinfo=UTC)


def main() -> None:
    """Most visitors come again; one visit in twenty is written up to half an hour late."""
    draw = random.Random(2)
    visits = []
    for _ in range(8000):
        at = START + timedelta(seconds=draw.uniform(0, 92 * 86400))
        late = timedelta(minutes=draw.uniform(0, 30) if draw.random() < 0.05 else 0)
        visitor = f"visitor-{int(draw.paretovariate(0.6)) % 700}"
        domain, page = draw.choices(DOMAINS, weights=[5, 3, 1])[0], draw.choices(PAGES, weights=[8, 4, 2, 1])[0]
        visits.append((at + late, {"visitor": visitor, "url": f"https://{domain}{page}", "at": at.isoformat()}))
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    visits.sort(key=lambda visit: visit[0])
    (folder / "visits.ndjson").write_text("".join(json.dumps(visit) + "\n" for _, visit in visits))


if __name__ == "__main__":
    main()
