"""The pages about definitions agree with the code: their tables, their examples and the names that they list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.aggregate import REGISTRY
from headrace.define.catalog import parse
from headrace.define.function_reference import BEGIN, END, TABLES
from headrace.language.foreign.foreign_functions import AGGREGATES, FUNCTIONS
from headrace.language.identifiers import RESERVED_COLUMNS
from headrace.language.literals import TYPES
from headrace.language.user_functions import fresh_names

DOCS = Path(__file__).parents[3] / "docs"
NAMES = ("streams", "types", "names", "views", "windows", "aggregates", "expressions", "functions", "python-functions")
PAGES = "\n".join((DOCS / f"{name}.md").read_text() for name in NAMES)
TABLE_PAGES = {"aggregates": "aggregates.md", "functions": "functions.md", "peers": "other-systems.md"}


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGES, re.DOTALL)


@pytest.mark.parametrize("table", TABLES)
def test_the_tables_are_generated_from_the_code(table):
    page = (DOCS / TABLE_PAGES[table]).read_text()
    text = page.partition(BEGIN.format(table))[2].partition(END.format(table))[0].strip()
    assert text == TABLES[table](), "paste the output of `python -m headrace.define.function_reference`"


def test_no_function_of_other_systems_is_one_of_these():
    assert not {*AGGREGATES, *FUNCTIONS} & set(REGISTRY)


def test_the_examples_in_sql_and_python_are_equal():
    names = {}
    with fresh_names():
        for code in blocks("python"):
            exec(f"import headrace as hr\n{code}", names)
        catalog = parse("\n".join(blocks("sql")))
    assert catalog.streams["visits"] == names["visits"]
    assert catalog.views["traffic"] == names["traffic"]


@pytest.mark.parametrize("name", [*REGISTRY, *TYPES, *RESERVED_COLUMNS])
def test_every_aggregate_type_and_reserved_name_is_documented(name):
    assert name in PAGES
