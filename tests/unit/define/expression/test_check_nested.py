"""ARRAY, STRUCT and MAP: how they are declared, stored and accessed, and where they are refused."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.define.catalog import parse
from headrace.define.expression.check import parse_expression
from headrace.define.fingerprint import from_json, to_json
from headrace.errors import DefinitionError
from headrace.language.token_cursor import parse_type
from headrace.types import BIGINT, DATE, DOUBLE, INT, STRING, array, decimal, map_of, struct

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
    ("text", "says"),
    [
        ("address.cty", "address has no part 'cty'; did you mean 'city'?"),
        ("items.price", "found ARRAY<STRUCT<price: DECIMAL(8,2), n: INT>>; expected a STRUCT; write items[0].price"),
        ("attributes.k", "write attributes['k']"),
        ("page.x", "page is not a STRUCT, so it has no 'x'"),
        ("page[0]", "page has no elements"),
        ("tags['a']", "takes an index, from 0; found STRING ('a'); expected INT"),
        ("attributes[0]", "takes a key; found INT (0); expected STRING"),
        ("tags = tags", "only single values are compared; found ARRAY<STRING>; take a part of it, as in tags[0]"),
        ("items IN (items)", "as in items[0].price"),
        ("lower(tags)", "lower: 'text' has an invalid value"),
        ("coalesce(tags, tags)", "expected a single value"),
        ("array_contains(tags, 5)", "the types are not compatible"),
        ("array_contains(items, 5)", "array_contains: the types are not compatible"),
        ("array_max(items)", "elements that are single values"),
        ("element_at(tags, 0)", "from 1 or from -1 at its end"),
        ("element_at(tags, i)", "a constant index"),
        ("element_at(tags, 'x')", "not compatible"),
        ("split(page, 'x*')", "a pattern that matches the empty text cannot separate"),
        ("array(1, 2)", "nested values cannot be created here"),
        ("CAST(tags AS STRING)", "CAST of ARRAY<STRING> to STRING is not supported"),
        ("tags[0", "expected ']'"),
    ],
)
def test_each_mistake_with_nested_types_says_what_to_do(text: str, says: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_expression(text, TYPES)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("a ARRAY", "the inner types after ARRAY, as in ARRAY<INT>"),
        ("a ARRAY<INT", "expected '>'"),
        ("a MAP<INT, INT>", "the keys of a MAP are STRING"),
        ("a STRUCT<x: INT, X: INT>", "the part 'X' of the STRUCT is declared twice"),
        ("a STRUCT<x: INT NOT NULL>", "a part of a STRUCT may always be missing"),
        ("a STRUCT<`x y`: INT>", "'x y' cannot name a part of a STRUCT"),
        ("a LIST", "the nearest is ARRAY<…>"),
        ("a " + "ARRAY<" * 8 + "INT" + ">" * 8, "a type of 9 levels is not supported; expected at most 8"),
        ("a STRING, b AS split(a, ' ')", "the computed field 'b' is not a single value"),
    ],
)
def test_types_that_are_refused(fields: str, says: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse(f"CREATE STREAM s ({fields})")
    assert says in str(caught.value)


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
    ("select", "says"),
    [
        ("address, count(*) FROM s GROUP BY address", "the key address is not a single value"),
        ("count(*) FROM s GROUP BY items", "take a part of it, as in items[0].price"),
        ("max(attributes) FROM s", "max takes a single value; found MAP<STRING, BIGINT> (attributes)"),
        ("sum(tags) FROM s", "take a part of it, as in tags[0]"),
        ("approx_count_distinct(address) FROM s", "take a part of it, as in address.city"),
    ],
)
def test_where_nested_values_are_refused(select: str, says: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse(f"CREATE MATERIALIZED VIEW v AS SELECT {select}", known=parse(f"CREATE STREAM s ({FIELDS})"))
    assert says in str(caught.value)
