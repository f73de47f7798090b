"""ARRAY, STRUCT and MAP: how they are declared, stored and accessed, and where they are refused."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.define.catalog import parse
from headrace.define.fingerprint import from_json, to_json
from headrace.errors import DefinitionError
from headrace.language.check import parse_expression
from headrace.language.token_cursor import parse_type
from headrace.types import BIGINT, DATE, DOUBLE, INT, STRING, array, decimal, map_of, struct
from tests import wording

ORDER = struct(("price", decimal(8, 2)), ("n", INT))
TYPES = {
    "page": STRING, "i": INT, "tags": array(STRING), "items": array(ORDER), "attributes": map_of(BIGINT),
    "address": struct(("city", STRING), ("geo", struct(("lat", DOUBLE), ("end", DOUBLE))), ("since", DATE)),
}  # fmt: skip
FIELDS = """page STRING, i INT, tags ARRAY<STRING>, items array<struct<price: DECIMAL(8,2), n INT>>,
    attributes MAP<STRING,BIGINT>, address STRUCT<city STRING, geo: STRUCT<lat: DOUBLE, `end`: DOUBLE>, since: DATE>"""


def test_declared_in_sql_and_python_and_stored() -> None:
    (stream,) = parse(f"CREATE STREAM s ({FIELDS})").streams.values()
    assert stream.types() | TYPES == stream.types()
    assert stream == hr.Stream("s", FIELDS)
    assert from_json(to_json(stream)) == stream
    assert str(stream.fields[3].type) == "ARRAY<STRUCT<price: DECIMAL(8,2), n: INT>>"
    assert str(TYPES["attributes"]) == "MAP<STRING, BIGINT>"
    for of in TYPES.values():
        assert parse_type(str(of)) == of
        hash(of)


@pytest.mark.parametrize(
    ("text", "sql", "type_"),
    [
        ("ADDRESS.City", "address.city", STRING),
        ("address.geo.lat * 2", "address.geo.lat * 2", DOUBLE),
        ("address . geo . `end`", "address.geo.`end`", DOUBLE),
        ("tags[0]", "tags[0]", STRING),
        ("items[i + 1].price", "items[i + 1].price", decimal(8, 2)),
        ("attributes['a''b']", r"attributes['a\'b']", BIGINT),
        ("element_at(items, -1).n", "element_at(items, -1).n", INT),
        ("element_at(attributes, page)", "element_at(attributes, page)", BIGINT),
        ("cardinality(tags)", "size(tags)", INT),
        ("map_keys(attributes)[0]", "map_keys(attributes)[0]", STRING),
        ("map_values(attributes)[0]", "map_values(attributes)[0]", BIGINT),
        ("split(page, '/')[1]", "split(page, '/')[1]", STRING),
        ("(tags)[0]::INT", "CAST(tags[0] AS INT)", INT),
        ("array_max(split(page, ','))", "array_max(split(page, ','))", STRING),
    ],
)
def test_parts_are_single_values(text: str, sql: str, type_: object) -> None:
    expression = parse_expression(text, TYPES)
    assert (expression.sql, expression.type) == (sql, type_)
    assert parse_expression(expression.sql, TYPES) == expression


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("address.cty", ("cty", "city")),
        ("items.price", ("ARRAY", "STRUCT", "DECIMAL(8,2)", "INT", "0")),
        ("attributes.k", ("k",)),
        ("page.x", ("STRUCT", "x")),
        ("page[0]", ()),
        ("tags['a']", ("0", "STRING", "a", "INT")),
        ("attributes[0]", ("INT", "0", "STRING")),
        ("tags = tags", ("ARRAY", "STRING", "0")),
        ("items IN (items)", ("0",)),
        ("lower(tags)", ("text",)),
        ("coalesce(tags, tags)", ()),
        ("array_contains(tags, 5)", ()),
        ("array_contains(items, 5)", ("array_contains",)),
        ("array_max(items)", ()),
        ("element_at(tags, 0)", ("1",)),
        ("element_at(tags, i)", ()),
        ("element_at(tags, 'x')", ()),
        ("split(page, 'x*')", ()),
        ("array(1, 2)", ()),
        ("CAST(tags AS STRING)", ("CAST", "ARRAY", "STRING")),
        ("tags[0", ("]",)),
    ],
)
def test_each_mistake_with_nested_types_says_what_to_do(text: str, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_expression(text, TYPES)
    wording.check(caught.value, *values)


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ("a ARRAY", ("ARRAY", "INT")),
        ("a ARRAY<INT", (">",)),
        ("a MAP<INT, INT>", ("MAP", "STRING")),
        ("a STRUCT<x: INT, X: INT>", ("X", "STRUCT")),
        ("a STRUCT<x: INT NOT NULL>", ("STRUCT",)),
        ("a STRUCT<`x y`: INT>", ("x y", "STRUCT")),
        ("a LIST", ("ARRAY",)),
        ("a " + "ARRAY<" * 8 + "INT" + ">" * 8, ("9", "8")),
        ("a STRING, b AS split(a, ' ')", ("b",)),
    ],
)
def test_types_that_are_refused(fields: str, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse(f"CREATE STREAM s ({fields})")
    wording.check(caught.value, *values)


def test_keys_and_aggregates_take_parts() -> None:
    catalog = parse(f"CREATE STREAM s ({FIELDS})")
    (view,) = parse(
        """CREATE MATERIALIZED VIEW v AS SELECT Address.City, size(tags) AS many, sum(items[0].price) AS total,
           count(tags) AS tagged, max(address.geo.lat) FROM s WHERE attributes['k'] > 0
           GROUP BY Address.City, size(tags)""",
        known=catalog,
    ).views.values()
    assert [key.name for key in view.keys] == ["city", "many"]
    assert [column.name for column in view.columns] == ["total", "tagged", "max_lat"]
    python_view = hr.View(
        "v",
        catalog.streams["s"]
        .where("attributes['k'] > 0")
        .group_by("address.city", many="size(tags)")
        .agg(total=hr.sum("items[0].price"), tagged=hr.count("tags"), max_lat=hr.max("address.geo.lat")),
    )
    assert python_view == view


@pytest.mark.parametrize(
    ("select", "values"),
    [
        ("address, count(*) FROM s GROUP BY address", ()),
        ("count(*) FROM s GROUP BY items", ("0",)),
        ("max(attributes) FROM s", ("MAP", "STRING", "BIGINT")),
        ("sum(tags) FROM s", ("0",)),
        ("approx_count_distinct(address) FROM s", ()),
    ],
)
def test_where_nested_values_are_refused(select: str, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse(f"CREATE MATERIALIZED VIEW v AS SELECT {select}", known=parse(f"CREATE STREAM s ({FIELDS})"))
    wording.check(caught.value, *values)
