"""Definitions in SQL: CREATE STREAM, CREATE MATERIALIZED VIEW, the SELECT of a view, windows."""
