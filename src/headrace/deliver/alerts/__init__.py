"""Alerts: conditions over the rows of views, and streams that fall silent."""
