"""Durable raw bytes with positions: the contract of a transport, and those that implement it."""
