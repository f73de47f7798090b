"""Values of a workspace's state of which a test needs a few fields only."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from headrace.server.status import BuildStatus, ViewStatus


def view_status(**values: Any) -> ViewStatus:
    """A view with these values; all others are None."""
    return ViewStatus(**{**dict.fromkeys((field.name for field in fields(ViewStatus)), None), **values})


def build_status(**values: Any) -> BuildStatus:
    """A build with these values; all others are None."""
    return BuildStatus(**{**dict.fromkeys((field.name for field in fields(BuildStatus)), None), **values})
