"""A key cannot have the name under which the store keeps an aggregate of its view."""

from __future__ import annotations

import pytest

from headrace.define.catalog import parse
from headrace.define.fingerprint import aggregate_id
from headrace.errors import DefinitionError
from tests import wording

STREAM = "CREATE STREAM s (k STRING, n INT);"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT k AS {name}, sum(n) AS total FROM s GROUP BY 1"


@pytest.mark.parametrize("change", [str, str.upper, "{}__rest".format])
def test_a_key_with_the_name_of_a_stored_column_is_refused(change: object) -> None:
    assert callable(change)
    (column,) = parse(STREAM + VIEW.format(name="k")).views["v"].columns
    name = change(aggregate_id(column.aggregate))
    with wording.raises(DefinitionError, "v"):
        parse(STREAM + VIEW.format(name=f"`{name}`"))
