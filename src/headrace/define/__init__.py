"""Streams, views and their plan as inert data: no Spark, no I/O but the reading of definition files."""
