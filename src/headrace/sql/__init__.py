"""SQL that people write: over the views in a child process, over the lake's events in Spark."""
