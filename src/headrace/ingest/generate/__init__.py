"""Generated events: from the types of a stream's fields, or a rule for a field; the same seed gives the same events."""
