"""The command line: thin commands over `headrace.client` and `headrace.runtime`."""

from headrace.cli.app import main

__all__ = ["main"]
