"""Questions that only the lake can answer, by Spark: the events behind a cell, and what a view said in the past."""
