"""What other systems write: it is read in a second pass, after our own grammar has refused a text."""

from headrace.language.foreign.foreign_syntax import ForeignSyntax

__all__ = ["ForeignSyntax"]
