"""A running workspace: its streams, the definitions that are applied, versions of views, status."""
