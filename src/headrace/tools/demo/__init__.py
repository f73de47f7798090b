"""The demo: a web shop's traffic through the real Headrace, checked against exact answers."""

from headrace.tools.demo.demo_run import run

__all__ = ["run"]
