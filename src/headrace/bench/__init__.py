"""Headrace's own figures on this machine: `headrace bench` prints them, docs/benchmarks.md keeps one run."""

from headrace.bench.run import main

__all__ = ["main"]
