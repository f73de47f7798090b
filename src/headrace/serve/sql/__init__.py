"""SQL of users: over views in a child process, over events in Spark."""
