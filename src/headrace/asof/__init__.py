"""Questions that only the lake can answer, by Spark: the events behind a cell, and what a view said in the past."""

from headrace.asof.questions import History
from headrace.spark.jobs import Job, Progress

__all__ = ["History", "Job", "Progress"]
