"""Infers a definition from a file: fields, event time and a first view."""

from headrace.infer.draft import Draft, draft

__all__ = ["Draft", "draft"]
