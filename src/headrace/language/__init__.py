"""Text of definitions to typed trees: tokens, syntax, terms. Imports nothing of definitions."""
