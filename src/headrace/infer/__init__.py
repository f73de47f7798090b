"""A definition from a file: what its events hold, which of it is the event time, and a first view to ask."""

from headrace.infer.draft import Drafted, draft

__all__ = ["Drafted", "draft"]
