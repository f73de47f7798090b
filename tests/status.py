"""Values of a workspace's state of which a test needs a few fields only."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from headrace.server.state import BuildStatus, ViewStatus


def view_status(**known: Any) -> ViewStatus:
    """A view of which only this is known."""
    return ViewStatus(**{**dict.fromkeys((field.name for field in fields(ViewStatus)), None), **known})


def build_status(**known: Any) -> BuildStatus:
    """A build of which only this is known."""
    return BuildStatus(**{**dict.fromkeys((field.name for field in fields(BuildStatus)), None), **known})
