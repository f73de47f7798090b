"""The command line: thin commands over `headrace.api.connect` and `headrace.server.runtime`."""

from headrace.cli.app import main

__all__ = ["main"]
