"""Sinks: rows of views and events of streams, sent to other systems."""
