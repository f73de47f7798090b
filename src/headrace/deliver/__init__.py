"""Everything that reads after a cursor: tails, subscriptions, live feeds, sinks and alerts. No Spark."""
