"""The demo: a web shop's traffic through the real Headrace, checked against exact answers."""

from headrace.demo.main import run

__all__ = ["run"]
