"""The effect of an edit, its cost, and the cheapest way to do it. No Spark, no I/O."""
