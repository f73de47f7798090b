"""The store on DuckDB: one file for versions and speed tables, one for each batch table."""
