"""The immutable log: parse, append, the Delta table of a stream."""
