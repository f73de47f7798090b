"""Headrace alone on this machine: `python -m bench ours` prints the figures, docs/benchmarks.md keeps one run."""
