"""Scalar expressions: read, checked against the fields of a stream, and written for Spark and DuckDB."""
