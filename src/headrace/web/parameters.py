"""What a question may carry in its URL, as OpenAPI says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def asked_parameters(key: str, others: Mapping[str, str]) -> list[dict[str, Any]]:
    """The parameters `key.NAME`, of which `key` says what they do, and the others, each with what it does."""
    keys = {
        "name": "key",
        "in": "query",
        "style": "form",
        "explode": True,
        "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        "description": key,
    }
    plain = [
        {"name": name, "in": "query", "schema": {"type": "string"}, "description": what}
        for name, what in others.items()
    ]
    return [keys, *plain]
