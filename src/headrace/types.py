"""The types of fields and columns."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lazy import pa


@dataclass(frozen=True)
class Type:
    """A SQL type. `str(type)` is its name in Spark, in definitions and in the documentation."""

    name: str
    precision: int = 0
    scale: int = 0
    parts: tuple[tuple[str, Type], ...] = ()  # of a STRUCT its fields, of an ARRAY `element`, of a MAP `key`, `value`

    def __str__(self) -> str:
        match self.name:
            case "DECIMAL":
                return f"DECIMAL({self.precision},{self.scale})"
            case "STRUCT":
                return f"STRUCT<{', '.join(f'{name}: {of}' for name, of in self.parts)}>"
            case "ARRAY" | "MAP":
                return f"{self.name}<{', '.join(str(of) for _, of in self.parts)}>"
        return self.name

    @property
    def is_nested(self) -> bool:
        """Return whether a value contains other values."""
        return self.name in NESTED

    @property
    def inner(self) -> Type:
        """The type of an ARRAY's elements or a MAP's values."""
        return self.parts[-1][1]

    @property
    def depth(self) -> int:
        """The number of nested types, this one included."""
        return 1 + max((of.depth for _, of in self.parts), default=0)

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


NESTED = ("ARRAY", "STRUCT", "MAP")


def array(element: Type) -> Type:
    """ARRAY<element>."""
    return Type("ARRAY", parts=(("element", element),))


def map_of(value: Type) -> Type:
    """MAP<STRING, value>: the keys of a JSON object are texts."""
    return Type("MAP", parts=(("key", STRING), ("value", value)))


def struct(*parts: tuple[str, Type]) -> Type:
    """STRUCT<name: type, …>."""
    return Type("STRUCT", parts=parts)


def decimal(precision: int, scale: int = 0) -> Type:
    """DECIMAL(precision, scale)."""
    return Type("DECIMAL", precision, scale)


def arrow_type(of: Type) -> pa.DataType:
    """The type of its values in Arrow and Parquet."""
    match of.name:
        case "STRING":
            return pa.string()
        case "BOOLEAN":
            return pa.bool_()
        case "INT":
            return pa.int32()
        case "BIGINT":
            return pa.int64()
        case "DOUBLE":
            return pa.float64()
        case "DECIMAL":
            return pa.decimal128(of.precision, of.scale)
        case "DATE":
            return pa.date32()
        case "TIMESTAMP":
            return pa.timestamp("us", tz="UTC")
        case "ARRAY":
            return pa.list_(arrow_type(of.inner))
        case "MAP":
            return pa.map_(pa.string(), arrow_type(of.inner))
        case "STRUCT":
            return pa.struct([pa.field(name, arrow_type(part)) for name, part in of.parts])
        case _:
            return pa.binary()
