"""The events of a stream as they come, and named subscriptions that share them. No Spark."""
