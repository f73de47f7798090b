"""Questions answered from the lake by Spark: the events behind a cell, and earlier states of a view."""
