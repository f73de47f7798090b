"""Bytes to typed columns, with a verdict for each event. Pure: used where events are accepted and in workers."""
