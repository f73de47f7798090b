"""Headrace with Kafka beside it: the rate from a topic, freshness from produce to answer, subscribers."""
