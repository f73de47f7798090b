"""The Nexmark benchmark: its events by its published rules, and those of its queries that views can express."""
