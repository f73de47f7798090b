"""What an edit would change, its cost, and the cheapest way to do it. No Spark, no I/O."""
