"""The only package that starts Spark: sessions, their Java process, the workers, jobs with progress."""
