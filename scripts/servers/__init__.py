"""What scripts/services runs: a Kafka broker, a PostgreSQL server."""
