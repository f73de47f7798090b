"""The types of fields and columns, and scalar expressions that have one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Type:
    """A SQL type. `str(type)` is how Spark, our SQL and our documents write it."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def is_integer(self) -> bool:
        return self.name in ("INT", "BIGINT")

    @property
    def is_numeric(self) -> bool:
        return self.name in ("INT", "BIGINT", "DOUBLE", "DECIMAL")


STRING = Type("STRING")
BOOLEAN = Type("BOOLEAN")
INT = Type("INT")
BIGINT = Type("BIGINT")
DOUBLE = Type("DOUBLE")
DATE = Type("DATE")
TIMESTAMP = Type("TIMESTAMP")
BINARY = Type("BINARY")  # partials only: no field has it


def decimal(precision: int, scale: int = 0) -> Type:
    """DECIMAL(precision, scale)."""
    return Type("DECIMAL", precision, scale)


@dataclass(frozen=True)
class Expression:
    """A scalar expression in Spark SQL, in canonical form, with the type of its value."""

    sql: str
    type: Type

    def __str__(self) -> str:
        return self.sql
