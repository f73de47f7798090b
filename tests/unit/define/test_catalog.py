"""A folder of definition files becomes one catalog, or all of its mistakes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headrace.define.catalog import Catalog, load
from headrace.errors import DefinitionError, DefinitionErrors
from tests import wording
from tests.calls import calls_of

STREAM = "CREATE STREAM visits (page STRING, at TIMESTAMP, WATERMARK FOR at);"
VIEW = "CREATE MATERIALIZED VIEW hits AS SELECT page, count(*) AS n FROM visits GROUP BY page, window(at, '1 minute');"
PYTHON = """
import headrace as hr

orders = hr.Stream("orders", "amount DECIMAL(10,2)")
same = orders
revenue = hr.View("revenue", orders.agg(total=hr.sum("amount")))
"""


def write(folder, **files):
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_text(text)


def test_sql_and_python_side_by_side(tmp_path):
    write(tmp_path, a_sql=VIEW, b_sql=STREAM, c_py=PYTHON, d_txt="not read")
    catalog = load(tmp_path)
    assert list(catalog.streams) == ["visits", "orders"]
    assert list(catalog.views) == ["hits", "revenue"]
    assert str(catalog.locations["revenue"]) == f"{tmp_path / 'c.py'}:6:11"
    assert len(catalog) == 4


def test_an_empty_or_missing_folder_is_an_empty_catalog(tmp_path):
    assert load(tmp_path) == Catalog()
    assert load(tmp_path / "no") == Catalog()


def test_files_are_executed_at_each_load(tmp_path):
    write(tmp_path, c_py=PYTHON)
    first = load(tmp_path)
    write(tmp_path, c_py=PYTHON.replace("revenue", "income"))
    assert list(load(tmp_path).views) == ["income"]
    assert list(first.views) == ["revenue"]


def test_places_are_not_part_of_equality(tmp_path):
    write(tmp_path, a_sql=STREAM)
    first = load(tmp_path)
    write(tmp_path, a_sql="\n\n" + STREAM)
    assert load(tmp_path) == first


@pytest.mark.parametrize(
    ("text", "line", "values"),
    [
        ("x = (", 1, ()),
        ("\n\n1 / 0", 3, ()),
        ("def f():\n    return {}['x']\nf()", 2, ("x",)),
        ("import sys\nsys.exit(1)", 2, ("1",)),
        (
            "events = spark.readStream.load()",
            1,
            ("spark",),
        ),
        ("\nimport dlt", 2, ("dlt",)),
        (
            "import headrace as hr\nhr.Stream('s', 'a BYTES')",
            2,
            ("BYTES",),
        ),
    ],
)
def test_a_mistake_in_python_has_its_line(tmp_path, text, line, values):
    write(tmp_path, c_py=text)
    with pytest.raises(DefinitionError) as e:
        load(tmp_path)
    wording.check(e.value, *values)
    assert "Traceback" not in str(e.value)
    assert (e.value.where.file, e.value.where.line) == (str(tmp_path / "c.py"), line)


MANY = """
import headrace as hr

orders = hr.Stream("orders", "amount DECIMAL(10,2), country STRING, city STRING")

for key in ("country", "city"):
    hr.View(f"by_{key}", orders.group_by(key).agg(total=hr.sum("amount")))

listed = [hr.View(f"most_{i}", orders.agg(total=hr.max("amount"))) for i in range(2)]
by_name = {"least": hr.View("least", orders.agg(total=hr.min("amount")))}


def declare():
    clicks = hr.Stream("clicks", "page STRING")
    hr.View("hits", clicks.agg(n=hr.count()))


declare()
"""


def test_every_stream_and_view_of_a_python_file_is_declared(tmp_path):
    write(tmp_path, many_py=MANY)
    catalog = load(tmp_path)
    assert list(catalog.streams) == ["orders", "clicks"]
    assert list(catalog.views) == ["by_country", "by_city", "most_0", "most_1", "least", "hits"]
    assert catalog.locations["by_country"].line == catalog.locations["by_city"].line == 7
    assert catalog.locations["hits"].line == 15


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (
            "for i in range(2):\n    hr.Stream('s', 'a INT')",
            3,
            "'s' is declared twice by this line; give each a unique name",
        ),
        ("a = hr.Stream('s', 'a INT')\n\na = hr.Stream('S', 'b INT')", 4, "'S' is declared twice, also at {file}:2:5"),
    ],
)
def test_two_of_one_name_in_a_python_file_name_both_places(tmp_path, text, line, says):
    write(tmp_path, c_py=f"import headrace as hr\n{text}")
    with pytest.raises(DefinitionError) as e:
        load(tmp_path)
    assert says.format(file=tmp_path / "c.py") in str(e.value)
    assert e.value.where.line == line


def test_a_stream_of_another_module_is_declared_where_it_is_imported(tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "shared_streams.py").write_text("import headrace as hr\nclicks = hr.Stream('clicks', 'a INT')")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    text = "import headrace as hr\nfrom shared_streams import clicks\nhr.View('n', clicks.agg(n=hr.count()))"
    write(tmp_path, c_py=text)
    for _ in range(2):  # the module itself runs only once
        assert (list(load(tmp_path).streams), list(load(tmp_path).views)) == (["clicks"], ["n"])
    write(tmp_path, d_py=text.replace("'n'", "'m'"))
    assert (list(load(tmp_path).streams), list(load(tmp_path).views)) == (["clicks"], ["n", "m"])


def test_all_mistakes_of_all_files(tmp_path):
    write(tmp_path, a_sql="CREATE STREAM s (a BYTES);", b_py="1 / 0", c_sql=STREAM, d_sql=STREAM)
    (tmp_path / "e.sql").write_bytes(b"\xff\xfe")
    with pytest.raises(DefinitionErrors) as e:
        load(tmp_path)
    assert [error.where.file[-5:] for error in e.value.errors] == ["a.sql", "/b.py", "d.sql", "e.sql"]
    assert "'visits' is declared twice, also at" in str(e.value)
    assert "the definition file cannot be read" in str(e.value)


def test_the_work_to_load_grows_with_the_definitions_and_not_with_their_square(tmp_path):
    def calls(files: int) -> int:
        folder = tmp_path / str(files)
        folder.mkdir()
        for i in range(files):
            (folder / f"s{i}.sql").write_text(
                STREAM.replace("visits", f"visits{i}")
                + VIEW.replace("visits", f"visits{i}").replace("hits AS", f"hits{i} AS")
            )
        assert len(load(folder)) == 2 * files
        return calls_of(lambda: load(folder))

    assert calls(60) < 5 * calls(15)  # 4 times; the square would be 16 times


def test_definitions_need_no_engine():
    code = (
        "import sys, headrace.define.catalog; print([m for m in ('pyspark', 'pyarrow', 'duckdb') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
