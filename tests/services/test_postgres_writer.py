"""The writer of PostgreSQL sinks against a real server: exactly once, types, tables that exist, and errors."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.define.model import Mode, Sink
from headrace.deliver.sinks.postgres_sink import PostgresWriter
from headrace.deliver.sinks.postgres_table import TableName
from headrace.deliver.sinks.sink_writer import DestinationError, SinkBatch, SinkChange
from headrace.errors import SecretError
from headrace.secrets import reveal
from headrace.serve.json_values import encoder
from headrace.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    array,
    decimal,
    map_of,
    struct,
)

from .running import Postgres
from .sink_batches import batch, deletes, full, row, upserts

HITS = "SELECT page, hits FROM counts ORDER BY page NULLS LAST"


def make_sink(name: str = "counts", mode: Mode = "update", **options: str) -> Sink:
    given = {"url": "secret:PG_URL", "table": "counts", **options}
    return Sink(name, "traffic", "postgres", tuple(sorted(given.items())), mode=mode)


@pytest.fixture
def sink(database_url: str) -> Sink:
    """Of a new database."""
    return make_sink()


_writers: list[PostgresWriter] = []


def open_writer(sink: Sink) -> PostgresWriter:
    writer = PostgresWriter(sink, "shop")
    _writers.append(writer)
    return writer


@pytest.fixture(autouse=True)
def close_writers() -> Iterator[None]:
    yield
    while _writers:
        _writers.pop().close()


@pytest.fixture
def database_url(postgres: Postgres, monkeypatch: pytest.MonkeyPatch, close_writers: None) -> Iterator[str]:
    """A new database, dropped afterwards: each has a thousand files, which a server that was killed looks at."""
    url = postgres.create_database()
    monkeypatch.setenv("PG_URL", url)
    yield url
    postgres.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")


class Session:
    """A writer, and a look at what it wrote."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.writer = open_writer(sink)
        self.cursor = self.writer.resume()
        self._url = reveal(sink.get("url") or "")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            result = connection.execute(query.encode())
            return result.fetchall() if result.description else []


@pytest.fixture
def session(sink: Sink) -> Session:
    return Session(sink)


def test_rows_are_upserted_and_deleted(session: Session) -> None:
    write = session.writer.write
    assert session.cursor is None
    write(batch(upserts([row("/a", 1), row("/b", 2), row(None, 3)]), "c1", snapshot=True))
    write(batch([*upserts([row("/a", 5), row(None, 6)], 2), *deletes([row("/b")], 2)], "c2"))
    assert session.rows(HITS) == [("/a", 5), (None, 6)]
    assert session.rows("SELECT DISTINCT _version, _commit FROM counts") == [(1, 2)]
    assert session.rows("SELECT workspace, sink, cursor FROM headrace_sinks") == [("shop", "counts", full("c2"))]
    assert Session(session.sink).cursor == full("c2")


def test_of_several_changes_of_a_row_the_last_counts(session: Session) -> None:
    changes = [*upserts([row("/a", 1), row("/a", 2)]), *deletes([row("/b")]), *upserts([row("/b", 9)])]
    session.writer.write(batch(changes, "c1", snapshot=True))
    session.writer.write(batch([*upserts([row("/b", 10)], 2), *deletes([row("/b")], 2)], "c2"))
    assert session.rows(HITS) == [("/a", 2)]


def test_a_batch_whose_commit_took_effect_is_not_written_again(session: Session) -> None:
    writer = open_writer(make_sink(mode="append", table="log"))
    writer.resume()
    events = [SinkChange("upsert", row("/a", n), 0, 1, n) for n in range(3)]
    sent = replace(batch(events, "c1"), keys=())
    writer.write(sent)
    writer.write(sent)  # as after a connection that was lost before the reply of COMMIT
    assert session.rows("SELECT hits, _commit, _position FROM log ORDER BY hits") == [(n, 1, n) for n in range(3)]


def test_a_paused_process_cannot_write_after_another_one(session: Session) -> None:
    session.writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    other = Session(session.sink).writer
    other.write(batch(upserts([row("/a", 2)], 2), "c2"))
    with pytest.raises(DestinationError, match=r"another process has written to table public.counts"):
        session.writer.write(batch(upserts([row("/a", 1)], 2), "c1b"))
    assert session.rows(HITS) == [("/a", 2)]
    assert session.writer.resume() == full("c2")


def test_a_new_version_replaces_all_rows_in_one_transaction(session: Session) -> None:
    write = session.writer.write
    write(batch(upserts([row("/a"), row("/b")]), "c1", snapshot=True))
    write(batch(upserts([row("/c")], version=2), "c2", snapshot=True, restarted=True, more=True))
    assert session.rows(HITS) == [("/a", 1), ("/b", 1)], "not before all rows are there"
    session.writer.close()
    session = Session(session.sink)  # a restart in between
    assert session.cursor == full("c2")
    session.writer.write(batch(upserts([row("/d")], version=2), "c3", snapshot=True, more=True))
    assert session.rows(HITS) == [("/a", 1), ("/b", 1)]
    session.writer.write(batch(upserts([row("/e")], version=2), "c4", snapshot=True))
    assert session.rows(HITS) == [("/c", 1), ("/d", 1), ("/e", 1)]
    session.writer.write(batch(upserts([row("/f")], version=3), "c5", snapshot=True, restarted=True))
    assert session.rows(HITS) == [("/f", 1)]
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
    assert session.rows(tables) == [("counts",), ("headrace_sinks",)]


def test_changes_end_a_replacement(session: Session) -> None:
    write = session.writer.write
    write(batch(upserts([row("/a")]), "c1", snapshot=True))
    write(batch(upserts([row("/b")], version=2), "c2", snapshot=True, restarted=True, more=True))
    write(batch(upserts([row("/c")], version=2), "c3"))
    assert session.rows(HITS) == [("/b", 1), ("/c", 1)]


def test_another_definition_replaces_the_rows_of_the_last(session: Session) -> None:
    session.writer.write(batch(upserts([row("/a")]), "c1", snapshot=True))
    session.writer.write(batch(upserts([row("/b")]), "another:c1", snapshot=True))
    assert session.rows(HITS) == [("/b", 1)]


def test_a_dropped_table_starts_anew(session: Session) -> None:
    session.writer.write(batch(upserts([row("/a")]), "c1", snapshot=True))
    session.rows("DROP TABLE counts")
    again = Session(session.sink)
    assert again.cursor is None
    again.writer.write(batch(upserts([row("/b")]), "c2", snapshot=True))
    assert session.rows(HITS) == [("/b", 1)]


def test_a_table_belongs_to_one_sink(session: Session) -> None:
    session.writer.write(batch(upserts([row("/a")]), "c1", snapshot=True))
    other = Session(make_sink("others"))
    with pytest.raises(DestinationError) as raised:
        other.writer.write(batch(upserts([row("/b")]), "c1", snapshot=True))
    assert "belongs to sink 'counts' of workspace 'shop'" in str(raised.value)
    session.rows(str(raised.value).partition("write ")[2])
    other.writer.write(batch(upserts([row("/b")]), "c1", snapshot=True))
    assert session.rows(HITS) == [("/b", 1)]


def test_a_dropped_sink_leaves_its_rows(session: Session) -> None:
    session.writer.write(batch(upserts([row("/a")]), "c1", snapshot=True))
    session.writer.forget()
    assert session.rows("SELECT count(*) FROM headrace_sinks") == [(0,)]
    assert session.rows(HITS) == [("/a", 1)]
    assert Session(session.sink).cursor is None


def test_keys_of_any_length_and_with_nul(session: Session) -> None:
    pages = ["x" * 20_000, "x" * 20_000 + "y", "", "a\0b", None]
    for cursor in ("c1", "c2"):
        session.writer.write(batch(upserts([row(page, 7) for page in pages]), cursor, snapshot=True))
    found = [page for page, _ in session.rows(HITS)]
    assert sorted(found, key=str) == sorted([*pages[:3], "a\u2400b", None], key=str)


def test_a_view_without_keys_has_one_row(session: Session) -> None:
    columns: tuple[tuple[str, Type], ...] = (("hits", BIGINT),)
    for n in range(3):
        change = SinkChange("upsert", {"hits": n}, 1, n)
        session.writer.write(SinkBatch("counts", columns, (), [change], f"d:{n}", snapshot=n == 0))
    assert session.rows("SELECT hits FROM counts") == [(2,)]


# Types

SCALARS: list[tuple[Type, st.SearchStrategy[Any]]] = [
    (STRING, st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    (BOOLEAN, st.booleans()),
    (INT, st.integers(-(2**31), 2**31 - 1)),
    (BIGINT, st.integers(-(2**63), 2**63 - 1)),
    (DOUBLE, st.floats()),
    (decimal(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    (decimal(20, 4), st.decimals(-(10**16) + 1, 10**16 - 1, places=4)),
    (DATE, st.dates()),
    (TIMESTAMP, st.datetimes(timezones=st.just(UTC))),
]


def with_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


TYPES: list[tuple[Type, st.SearchStrategy[Any]]] = [
    *SCALARS,
    *((array(of), st.lists(with_null(values), max_size=4)) for of, values in SCALARS),
    *((map_of(of), st.dictionaries(SCALARS[0][1], with_null(values), max_size=3)) for of, values in SCALARS),
    (array(array(INT)), st.lists(st.lists(with_null(SCALARS[2][1]), max_size=3), max_size=3)),
    (
        struct(("a", STRING), ("b", DOUBLE)),
        st.fixed_dictionaries({"a": with_null(SCALARS[0][1]), "b": with_null(SCALARS[4][1])}),
    ),
]
WIDE: tuple[tuple[str, Type], ...] = (("id", BIGINT), *((f"c{n}", of) for n, (of, _) in enumerate(TYPES)))
ROWS = st.lists(st.tuples(*(with_null(values) for _, values in TYPES)), min_size=1, max_size=5)


def as_found(of: Type, value: Any) -> Any:
    """A value as PostgreSQL gives it back."""
    if value is None:
        return None
    if of.name == "STRING":
        return value.replace("\0", "\u2400")
    if of.name == "DOUBLE":
        return "NaN" if math.isnan(value) else value
    if of.name == "ARRAY" and not of.inner.is_nested:
        return [as_found(of.inner, item) for item in value]
    if of.is_nested:
        encode = encoder(of)
        return _replace(json.loads(json.dumps(encode(value) if encode else value)))
    return value


def _replace(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\u2400")
    if isinstance(value, list):
        return [_replace(item) for item in value]
    if isinstance(value, dict):
        return {_replace(name): _replace(item) for name, item in value.items()}
    return value


def as_double(of: Type, value: Any) -> Any:
    """What was found, with DOUBLE as such: JSON of PostgreSQL has them as digits, and NaN is not equal to itself."""
    if isinstance(value, float | int) and of == DOUBLE:
        return "NaN" if math.isnan(value) else float(value)
    if isinstance(value, list):
        return [as_double(of.inner, item) for item in value]
    if isinstance(value, dict):
        parts = dict(of.parts)
        return {name: as_double(parts[name] if of.name == "STRUCT" else of.inner, v) for name, v in value.items()}
    return value


def test_every_type_comes_back_as_it_was(session: Session) -> None:
    cursors = iter(range(10_000))

    @settings(max_examples=60, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(ROWS)
    def write(rows: list[tuple[Any, ...]]) -> None:
        changes = [
            SinkChange("upsert", dict(zip(dict(WIDE), (n, *values), strict=True)), 1, 1)
            for n, values in enumerate(rows)
        ]
        session.writer.write(SinkBatch("counts", WIDE, ("id",), changes, f"d:{next(cursors)}", True, True))
        names = ", ".join(name for name, _ in WIDE)
        found = session.rows(f"SELECT {names} FROM counts ORDER BY id")
        expected = [
            tuple(as_found(of, value) for (_, of), value in zip(WIDE, (n, *values), strict=True))
            for n, values in enumerate(rows)
        ]
        for values, others in zip(found, expected, strict=True):
            for (_, of), value, other in zip(WIDE, values, others, strict=True):
                assert as_double(of, value) == other, of

    write()
    types = dict(session.rows("SELECT column_name::text, data_type::text FROM information_schema.columns"))
    assert types["c5"] == "numeric"
    assert types["c8"] == "timestamp with time zone"


def test_a_sum_that_outgrows_its_column_is_named(session: Session) -> None:
    columns: tuple[tuple[str, Type], ...] = (("page", STRING), ("bytes", BIGINT))
    wide: tuple[tuple[str, Type], ...] = (("page", STRING), ("bytes", decimal(38, 0)))

    def sums(columns: tuple[tuple[str, Type], ...], value: int, cursor: str) -> SinkBatch:
        change = SinkChange("upsert", {"page": "/a", "bytes": value}, 1, 1)
        return SinkBatch("counts", columns, ("page",), [change], full(cursor), snapshot=cursor == "c1")

    session.writer.write(sums(columns, 1, "c1"))
    with pytest.raises(DestinationError, match=r"too large for its column.*numeric"):
        session.writer.write(sums(wide, 10**30, "c2"))
    session.rows("ALTER TABLE counts ALTER COLUMN bytes TYPE numeric(38,0)")
    assert session.writer.resume() == full("c1")
    session.writer.write(sums(wide, 10**30, "c2"))
    session.writer.write(sums(columns, 5, "c3"))
    assert session.rows("SELECT bytes FROM counts") == [(5,)]


# Tables that exist


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("ALTER TABLE counts DROP COLUMN hits", "lacks the column 'hits'"),
        ("ALTER TABLE counts ALTER COLUMN hits TYPE text", "'hits' has the wrong type; found text; expected bigint"),
        ("ALTER TABLE counts DROP CONSTRAINT counts_pkey", "no unique index on '_key'"),
        ("ALTER TABLE counts ADD other int NOT NULL DEFAULT 0; ALTER TABLE counts ALTER other DROP DEFAULT",
         "the column 'other' is NOT NULL without a default"),
        ("ALTER TABLE counts DROP COLUMN _key", "lacks the column '_key'"),
        ("ALTER TABLE counts DROP COLUMN hits, ADD COLUMN hits bigint GENERATED ALWAYS AS (1) STORED",
         "the column 'hits' is generated"),
    ],
)  # fmt: skip
def test_what_an_error_says_to_write_helps(session: Session, change: str, expected: str) -> None:
    session.writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    session.rows(change)
    again = Session(session.sink)
    update = batch(upserts([row("/a", 2)], 2), "c2")
    with pytest.raises(DestinationError) as raised:
        again.writer.write(update)
    message = str(raised.value)
    assert expected in message
    statement = message.partition("; write ")[2].removesuffix("; or name another table")
    session.rows(statement)
    assert again.writer.resume() == full("c1")
    again.writer.write(update)
    assert session.rows("SELECT page, hits FROM counts WHERE hits = 2") == [("/a", 2)]


def test_columns_may_be_wider_and_more(session: Session) -> None:
    session.rows(
        "CREATE TABLE counts (id bigserial, note text DEFAULT 'x', page varchar(300), window_start timestamptz,"
        " window_end timestamptz, hits numeric, settled boolean, _key uuid UNIQUE, _version bigint, _commit bigint)"
    )
    for hits in (1, 2):
        session.writer.write(batch(upserts([row("/a", hits)]), f"c{hits}", snapshot=True))
    assert session.rows("SELECT page, hits, note FROM counts") == [("/a", 2, "x")]


def test_names_keep_their_case_and_quotes(session: Session) -> None:
    for text in ('"my.Schema".Counts', '"my.Schema"."a""b{}%s"'):
        name = TableName.parse(text, "counts")
        session.rows('CREATE SCHEMA IF NOT EXISTS "my.Schema"')
        other = Session(make_sink(f"of {text}", table=text))
        other.writer.write(batch(upserts([row("/a")]), "c1", snapshot=True))
        assert session.rows(f"SELECT page FROM {name.text}") == [("/a",)]


@pytest.mark.parametrize("text", ["", "a.b.c", "a..b", '"a', "x" * 64])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(DestinationError, match="table"):
        TableName.parse(text, "counts")


def test_a_long_column_name_is_refused(session: Session) -> None:
    columns: tuple[tuple[str, Type], ...] = (("n" * 64, BIGINT),)
    change = SinkChange("upsert", {"n" * 64: 1}, 1, 1)
    with pytest.raises(DestinationError, match="too long for PostgreSQL; found 64 bytes; expected at most 63"):
        session.writer.write(SinkBatch("counts", columns, (), [change], full("c1")))


# Errors


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://headrace:sesame-open@{host}/headrace", "refuses the login: password authentication failed"),
        ("postgresql://headrace:sesame-open@127.0.0.1:1/headrace", "cannot be reached: Connection refused"),
        ("postgresql://headrace:sesame-open@no-host.invalid/headrace", "cannot be reached"),
        ("{right}-none", "does not exist; create it, or correct the URL"),
        ("sesame-open is not a url", "is not the address of a database; found secret:BAD_URL; expected postgresql://"),
        ("postgresql://u:sesame-open@h/d?sslmodus=nonsense", "is not the address of a database"),
    ],
)
def test_addresses_that_do_not_work(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, url: str, expected: str
) -> None:
    host = postgres.url.rpartition("@")[2].partition("/")[0]
    monkeypatch.setenv("BAD_URL", url.format(host=host, right=postgres.url))
    with pytest.raises(DestinationError) as raised:
        open_writer(make_sink(url="secret:BAD_URL")).resume()
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "sesame" not in str(raised.value)
    assert postgres.password not in str(raised.value)


def test_a_secret_that_is_not_set() -> None:
    with pytest.raises(SecretError, match="'secret:NOT_SET_ANYWHERE' is not set"):
        open_writer(make_sink(url="secret:NOT_SET_ANYWHERE")).resume()


def test_rights_that_are_missing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.rows("DROP ROLE IF EXISTS clerk")
    session.rows("CREATE ROLE clerk LOGIN PASSWORD 'clerk-word'")
    address = os.environ["PG_URL"].rpartition("@")[2]
    monkeypatch.setenv("CLERK", f"postgresql://clerk@{address}")
    monkeypatch.setenv("CLERK_WORD", "clerk-word")
    writer = open_writer(make_sink("clerks", url="secret:CLERK", password="secret:CLERK_WORD", table="theirs"))
    writer_is_refused = "permission denied for table headrace_sinks; GRANT SELECT, INSERT, UPDATE, DELETE"
    with pytest.raises(DestinationError, match=writer_is_refused):
        writer.resume()
    session.rows("GRANT SELECT, INSERT, UPDATE, DELETE ON headrace_sinks TO clerk")
    writer.resume()
    with pytest.raises(DestinationError, match="permission denied for schema public"):
        writer.write(batch(upserts([row("/a")]), "c1", snapshot=True))
    session.rows("GRANT CREATE ON SCHEMA public TO clerk")
    writer.resume()
    writer.write(batch(upserts([row("/a")]), "c1", snapshot=True))
    assert session.rows("SELECT page FROM theirs") == [("/a",)]
    session.rows("DROP OWNED BY clerk; DROP ROLE clerk")


def test_a_schema_that_is_missing(session: Session) -> None:
    with pytest.raises(DestinationError, match='schema "nowhere" does not exist; write CREATE SCHEMA'):
        Session(make_sink(table="nowhere.counts"))


def test_a_row_that_a_constraint_refuses(session: Session) -> None:
    session.writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    session.rows("ALTER TABLE counts ADD CONSTRAINT few CHECK (hits < 10)")
    with pytest.raises(DestinationError, match=r"violates a constraint 'few'.*keep such rows out by WHERE"):
        session.writer.write(batch(upserts([row("/a", 11)]), "c2"))


def test_an_index_that_is_too_small(session: Session) -> None:
    session.writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    session.rows("CREATE INDEX ON counts (page)")
    letters = random.Random(1)
    page = "".join(chr(letters.randrange(0x4E00, 0x9FA5)) for _ in range(4000))
    with pytest.raises(DestinationError, match=r"too long for an index.*drop the index"):
        session.writer.write(batch(upserts([row(page, 11)]), "c2"))


def test_a_table_that_is_locked(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.deliver.sinks.postgres_sink.LOCK_TIMEOUT_MS", 200)
    session.writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    with psycopg.connect(reveal("secret:PG_URL")) as other:
        other.execute("LOCK TABLE counts")
        with pytest.raises(DestinationError, match="locked by another transaction"):
            session.writer.write(batch(upserts([row("/a", 2)]), "c2"))
    assert session.writer.resume() == full("c1")
    session.writer.write(batch(upserts([row("/a", 2)]), "c2"))
    assert session.rows(HITS) == [("/a", 2)]


@pytest.fixture
def small_tablespace(postgres: Postgres, session: Session) -> Iterator[Path]:
    """A disk of 16 MB that holds new tables of the database."""
    disk = postgres.folder / "small-disk"
    disk.mkdir()
    owner = (postgres.folder / "postgres" / "data").stat()
    options = f"size=16m,mode=700,uid={owner.st_uid},gid={owner.st_gid}"
    command = ["mount", "-t", "tmpfs", "-o", options, "headrace-test", str(disk)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        disk.rmdir()
        pytest.skip(f"mounting a file system is not permitted here: {ended.stderr.strip()}")
    session.rows(f"CREATE TABLESPACE small LOCATION '{disk}'")
    yield disk
    session.writer.close()
    session.rows("DROP TABLE counts")
    session.rows("DROP TABLESPACE small")
    subprocess.run(["umount", "-l", str(disk)], check=True)
    disk.rmdir()


def test_a_full_disk_of_the_database(session: Session, small_tablespace: Path) -> None:
    session.writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    session.rows("ALTER TABLE counts SET TABLESPACE small")
    ballast = small_tablespace / "ballast"
    with ballast.open("ab", buffering=0) as out, suppress(OSError):
        while out.write(bytes(4096)) == 4096:
            pass
    many = batch(upserts([row(f"/page/{n}", n) for n in range(2000)], 2), "c2")
    with pytest.raises(DestinationError, match=r"the disk of the database is full .*free space there"):
        session.writer.write(many)
    ballast.unlink()
    assert session.writer.resume() == full("c1")
    session.writer.write(many)
    assert session.rows("SELECT count(*), sum(hits) FROM counts") == [(2001, 1 + sum(range(2000)))]


def test_a_server_that_is_down_and_comes_back(postgres: Postgres, session: Session) -> None:
    session.writer.write(batch(upserts([row("/a", 1)]), "c1", snapshot=True))
    postgres.kill()
    for _ in range(2):
        with pytest.raises(DestinationError, match="Headrace retries automatically"):
            session.writer.write(batch(upserts([row("/a", 2)]), "c2"))
    postgres.start()
    assert session.writer.resume() == full("c1")
    session.writer.write(batch(upserts([row("/a", 2)]), "c2"))
    assert session.rows(HITS) == [("/a", 2)]


def test_times_and_numbers_arrive_as_such(session: Session) -> None:
    columns: tuple[tuple[str, Type], ...] = (("day", DATE), ("at", TIMESTAMP), ("price", decimal(10, 2)))
    change = SinkChange(
        "upsert", {"day": date(2026, 3, 1), "at": datetime(2026, 3, 1, 12, tzinfo=UTC), "price": Decimal("1.50")}, 1, 1
    )
    session.writer.write(SinkBatch("counts", columns, ("day",), [change], full("c1"), snapshot=True))
    found = session.rows("SELECT day + 1, at + interval '1 hour', price * 2 FROM counts")
    assert found == [(date(2026, 3, 2), datetime(2026, 3, 1, 13, tzinfo=UTC), Decimal("3.00"))]
