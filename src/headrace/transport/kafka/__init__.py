"""The transport of a stream whose events are in Kafka."""
