"""Lines of the access log, split by plain Python."""

from __future__ import annotations

import re
from datetime import UTC, datetime

COMBINED = re.compile(
    r'(\S+) \S+ \S+ \[([^]]+)] "(.*?)" (\d{3}) (\S+) "(.*?)" "([^"]*)"?'
)  # one line of the file lost its last records


def read_line(line):
    ip, at, request, status, size, _, agent = COMBINED.match(line).groups()
    moment = datetime.strptime(at, "%d/%b/%Y:%H:%M:%S %z")
    return {
        "ip": ip,
        "path": request.split(" ")[1] if " " in request else None,
        "status": int(status),
        "bytes": None if size == "-" else int(size),
        "agent": agent,
        "at": moment.isoformat(),
    }


def hour(event):
    return datetime.fromisoformat(event["at"]).astimezone(UTC).strftime("%Y-%m-%dT%H:00:00Z")
