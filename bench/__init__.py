"""Headrace beside other engines, Nexmark, and how cost grows: `make bench-full` and `make bench-check`."""
