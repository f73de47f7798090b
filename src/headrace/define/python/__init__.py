"""Definitions in Python: `hr.Stream`, `hr.View` and what they are made of."""
