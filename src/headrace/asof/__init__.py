"""Questions answered from the lake by Spark: the events behind a cell, and earlier states of a view."""

from headrace.asof.questions import History
from headrace.spark.jobs import Job, Progress

__all__ = ["History", "Job", "Progress"]
