"""Definitions in SQL: text to catalog."""

from __future__ import annotations

from headrace.define.catalog import Catalog, Definition, assemble
from headrace.define.sql.statements import read_statements
from headrace.define.tokens import Source


def parse(text: str, file: str = "<sql>", known: Catalog | None = None) -> Catalog:
    """The streams and views that a text declares; its views may also read the streams of `known`."""
    declared, errors = read_statements(Source(text, file))
    return assemble([Definition(d.definition, d.where) for d in declared], errors, known)
