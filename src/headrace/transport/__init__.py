"""Durable raw bytes with positions."""
