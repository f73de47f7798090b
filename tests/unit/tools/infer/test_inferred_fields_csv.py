"""Inference from typical CSV files: `headrace send` can send the file to the inferred stream."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import IngestError
from headrace.ingest.formats.csv_lines import field_names, match_titles
from headrace.tools.infer import Draft, draft
from headrace.tools.infer.file_sample import read_sample
from tests import wording
from tests.effort import examples


def infer(folder: Path, text: str, name: str = "orders.csv", fields: tuple[str, ...] = ()) -> Draft:
    file = folder / name
    file.write_bytes(text.encode())
    return draft("orders", [read_sample(file, fields)])


def types(definition: Draft) -> dict[str, str]:
    return {field.name: str(field.type) for field in definition.stream.fields}


def test_a_german_export(tmp_path: Path) -> None:
    rows = [
        f'{1000 + i};Kunde {i % 7};{["DE", "AT"][i % 2]};{i}.{i:03d},50;17.05.2024 10:{i:02d};"zwei\nZeilen; ""so"""'
        for i in range(1, 40)
    ]
    header = "\ufeffBestell-Nr;Kunde;Land;Betrag (€);Bestellt am;Größe"
    definition = infer(tmp_path, "\r\n".join([header, *rows]) + "\r\n")
    assert types(definition) == {
        "bestell_nr": "BIGINT", "Kunde": "STRING", "Land": "STRING", "betrag": "STRING", "betrag_num": "DOUBLE",
        "bestellt_am": "STRING", "grosse": "STRING", "at": "TIMESTAMP",
    }  # fmt: skip
    assert (definition.fitting, definition.sampled) == (39, 39)
    assert "to_timestamp(bestellt_am, 'dd.MM.yyyy HH:mm')" in definition.sql
    assert "sum(betrag_num)" in definition.sql
    assert definition.view == "orders_by_land"


def test_cells_that_are_empty_missing_or_padded_with_zeros(tmp_path: Path) -> None:
    text = "at,zip,n,ok,temp\n2024-05-17 10:05,01234,1,True,1.5\n2024-05-17 10:06,98765,,false,NA\n" + "".join(
        f"2024-05-17 10:{i},11111,2,TRUE,{i}\n" for i in range(10, 40)
    )
    definition = infer(tmp_path, text)
    assert types(definition) == {
        "at": "TIMESTAMP", "zip": "STRING", "n": "INT", "ok": "BOOLEAN", "temp": "STRING", "temp_num": "DOUBLE",
    }  # fmt: skip
    assert definition.fitting == 32
    assert "avg(temp_num)" in definition.sql


def test_rows_of_another_width_are_counted(tmp_path: Path) -> None:
    definition = infer(tmp_path, "a,b\n1,2\n1,2\n1,2\n1\n")
    [(reason, count)] = definition.refused.items()
    wording.check(reason)
    assert count == 1
    with wording.raises(IngestError):
        infer(tmp_path, "a,b\n1,2\n1\n2\n3\n")


def test_other_delimiters_compressions_and_parquet(tmp_path: Path) -> None:
    assert types(infer(tmp_path, "a\tb c\n1\tx\n")) == {"a": "INT", "b_c": "STRING"}
    assert types(infer(tmp_path, "a|b\n1|x\n", name="data")) == {"a": "INT", "b": "STRING"}
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(b"a,b\n1,2.5\n"))
    assert types(draft("s", [read_sample(packed)])) == {"a": "INT", "b": "DOUBLE"}
    table = tmp_path / "table.parquet"
    pq.write_table(pa.table({"at": pa.array([1_700_000_000_000], pa.timestamp("ms")), "n": [5]}), table)
    assert types(draft("s", [read_sample(table)])) == {"at": "TIMESTAMP", "n": "INT"}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a\n1\n2\n", ()),
        ("15174,2020-07-30T23:17:36,add_to_cart\n", ()),
        ("a,b\n", ()),
    ],
)
def test_a_file_that_is_not_csv_with_a_header_is_refused(tmp_path: Path, text: str, values: tuple[str, ...]) -> None:
    with wording.raises(IngestError, *values):
        infer(tmp_path, text, name="orders.csv")


def test_columns_without_a_header_can_be_named(tmp_path: Path) -> None:
    definition = infer(tmp_path, "15174,2020-07-30T23:17:36,add_to_cart\n", fields=("id", "at", "event"))
    assert types(definition) == {"id": "BIGINT", "at": "TIMESTAMP", "event": "STRING"}
    assert definition.fitting == 1


def test_a_large_file_is_sampled_throughout(tmp_path: Path) -> None:
    file = tmp_path / "large.csv"
    with file.open("w") as out:
        out.write("Ordered At,n\n")
        for i in range(200_000):
            out.write(f"2024-05-{1 + i // 8000:02d} 10:00,{i}\n")
    definition = draft("large", [read_sample(file)])
    assert definition.sampled < 30_000
    assert definition.fitting == definition.sampled
    assert definition.span is not None
    assert definition.span.last_us - definition.span.first_us == 24 * 86_400_000_000


def test_titles_become_names() -> None:
    titles = ["Order ID", "", "2024", "window", "_id", "Größe (cm)", "a__b", "price", "Price", "数", "x" * 80]
    names = field_names(titles)
    assert names[:9] == [
        "order_id",
        "column_2",
        "column_2024",
        "window_column",
        "id",
        "grosse_cm",
        "a_b",
        "price",
        "Price_9",
    ]
    assert names[9] == "column_10"
    assert len(names[10]) <= 63
    assert match_titles(["Order ID", "other thing"], {"order_id"}) == ["order_id", "other thing"]
    assert match_titles(["price"], {"price"}) == ["price"]


CELL = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)
CELLS = {
    "number": st.one_of(st.integers(-5, 5_000_000_000).map(str), st.floats(-1e9, 1e9).map("{:.3f}".format)),
    "time": st.datetimes().map(lambda at: at.isoformat(" ", "seconds")),
    "boolean": st.sampled_from(["true", "False", "TRUE", ""]),
    "text": CELL.map(lambda text: '"' + text.replace('"', '""') + '"'),
    "sparse": st.sampled_from(["", "", "5", "7.25"]),
}


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_row_fits_the_inferred_definition(tmp_path: Path, data: st.DataObject) -> None:
    columns = [
        "first",
        *data.draw(st.lists(st.sampled_from(["at", "Order ID", "amount", "x y", "ts"]), min_size=1, unique=True)),
    ]
    kinds = [data.draw(st.sampled_from(sorted(CELLS))) for _ in columns]
    delimiter = data.draw(st.sampled_from(",;\t|"))
    rows = data.draw(st.lists(st.tuples(*(CELLS[kind] for kind in kinds)), min_size=1, max_size=15))
    lines = [delimiter.join(columns), *(delimiter.join(row) for row in rows if any(row))]
    if len(lines) == 1:
        return
    definition = infer(tmp_path, "\n".join(lines) + "\n")
    assert not definition.left_out
    assert definition.fitting == definition.sampled
