"""Infers a definition from a file: fields, event time and a first view."""

from headrace.tools.infer.definition_draft import Draft, draft

__all__ = ["Draft", "draft"]
