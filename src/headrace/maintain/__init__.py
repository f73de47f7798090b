"""Views kept up to date by Spark jobs over the lake."""
