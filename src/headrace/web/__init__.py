"""HTTP: endpoints over a runtime, and the page. No business rules."""
