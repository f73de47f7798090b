"""Real-time analytics on Apache Spark: declare streams and views once, get live numbers that are right."""
