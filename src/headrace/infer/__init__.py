"""Infers a definition from a file: fields, event time and a first view."""

from headrace.infer.draft import Drafted, draft

__all__ = ["Drafted", "draft"]
