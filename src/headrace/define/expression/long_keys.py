"""Keys of views beyond a length: both engines shorten them alike, so that no row of a view holds megabytes of key."""

from __future__ import annotations

from headrace.types import STRING, Type

LONGEST_KEY = 64 << 10  # bytes
KEPT = 200  # characters of a longer key; with its length and its MD5, different keys stay different


def shorten_duckdb(key: str, of: Type) -> str:
    """SQL of DuckDB for a key of a view."""
    return _shorten(key, of, f"strlen({key})", f"md5({key})")


def shorten_spark(key: str, of: Type) -> str:
    """The same for Spark."""
    return _shorten(key, of, f"octet_length({key})", f"md5(CAST({key} AS BINARY))")


def _shorten(key: str, of: Type, size: str, digest: str) -> str:
    if of != STRING:
        return key
    text = f"concat(left({key}, {KEPT}), '... (', CAST({size} AS STRING), ' bytes, MD5 ', {digest}, ')')"
    return f"CASE WHEN {size} > {LONGEST_KEY} THEN {text} ELSE {key} END"
