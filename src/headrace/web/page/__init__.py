"""The page at `/`: rendered here, every value escaped, nothing loaded from anywhere else."""

from headrace.web.page.page_routes import page_routes

__all__ = ["page_routes"]
