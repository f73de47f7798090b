"""The immutable log of a stream: its Delta table, append, compaction, dead letters."""
