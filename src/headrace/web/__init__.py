"""HTTP: endpoints over a runtime, and the one page. Thin: no rule of the product lives here."""
