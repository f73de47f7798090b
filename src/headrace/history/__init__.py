"""Questions that only the lake can answer, by Spark: the events behind a cell, and what a view said in the past."""

from headrace.history.history import History
from headrace.history.job import Job, Progress

__all__ = ["History", "Job", "Progress"]
