"""A workspace on disk: settings, lease, the applied catalog."""
