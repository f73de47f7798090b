"""Definitions in Python: `hr.Stream`, `hr.View` their queries, and definition files."""
