"""Definitions in SQL: statements, the SELECT of a view, windows."""
