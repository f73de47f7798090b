"""What an edit would change, what it takes, and the cheapest way to it. Inert: no Spark, no I/O."""
