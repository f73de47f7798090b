"""How terms, views, relations and aggregates run: by DuckDB, by Spark, and in Python."""
