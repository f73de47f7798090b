"""Questions that only the lake can answer, by Spark: the events behind a cell."""

from headrace.history.history import History
from headrace.history.job import Job

__all__ = ["History", "Job"]
