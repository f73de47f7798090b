"""Questions and their answers: reads the store, merges, presents. No Spark."""
