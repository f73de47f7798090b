"""The embedded transport: segments of records on local disk."""
