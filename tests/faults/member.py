"""A member of a subscription, as a process: it writes down each event, then acknowledges it, until it is killed."""

from __future__ import annotations

import os
import sys
import time

import headrace as hr
from headrace.errors import NotReadyError, UnavailableError


def main(workspace: str, name: str, path: str) -> None:
    """Append the id of each event to a file; a killed process loses nothing that it has written."""
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        try:
            process(workspace, name, out)
        except (UnavailableError, NotReadyError):  # it was started while the server is down
            time.sleep(0.2)


def process(workspace: str, name: str, out: int) -> None:
    with hr.connect(workspace) as ws, ws.subscribe("clicks", name=name, limit=50, credit=200) as events:  # type: ignore[attr-defined]
        for number, batch in enumerate(events.batches()):
            os.write(out, b"".join(b"%d\n" % event["id"] for event in batch))
            if number % 2:
                batch.ack()
            else:
                for event in batch:
                    event.ack()


if __name__ == "__main__":
    main(*sys.argv[1:])
