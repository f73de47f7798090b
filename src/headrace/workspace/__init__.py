"""A workspace on disk: settings, lease, the catalog that was applied."""
