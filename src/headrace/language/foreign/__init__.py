"""The syntax of other systems, which is read in a second pass, after our own grammar has refused a text."""

from headrace.language.foreign.foreign_syntax import ForeignSyntax
from headrace.language.foreign.recovery import read_again

__all__ = ["ForeignSyntax", "read_again"]
