"""SQL of users: over views in a child process, over events in Spark."""

from headrace.sql.answer import SqlAnswer

__all__ = ["SqlAnswer"]
