"""Writes events/access.log: lines of a web server, the same ones each time."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

PAGES = {"/home": 20, "/search": 90, "/cart": 45, "/pay": 250, "/report": 900, "/rare": 5000}  # usual milliseconds
START = datetime(2026, 3, 1, 10, tzinfo=UTC)


def main() -> None:
    """Two hours of requests; the server fails more often in the second one."""
    draw = random.Random(3)
    lines = []
    for second in range(0, 7200, 2):
        at = START + timedelta(seconds=second)
        page = draw.choices(list(PAGES), weights=[40, 25, 15, 10, 9, 0.2])[0]
        status = draw.choices([200, 404, 500], weights=[90, 7, 3 if second < 3600 else 15])[0]
        address = f"10.0.{draw.randint(0, 3)}.{int(draw.paretovariate(0.9)) % 40}"
        ms = int(PAGES[page] * draw.lognormvariate(0, 0.5)) + 1
        request = f'"GET {page}?id={draw.randint(1, 99)} HTTP/1.1" {status} {draw.randint(200, 9000)} {ms}'
        lines.append(f"{address} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] {request}\n")
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    (folder / "access.log").write_text("".join(lines))


if __name__ == "__main__":
    main()
