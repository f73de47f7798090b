"""Reads CREATE TABLE: columns with a primary key; without one, the table of other systems that is a stream here."""

from __future__ import annotations

from headrace.define.model import Stream, Table
from headrace.define.rules import located
from headrace.define.sql.streams import StreamReader
from headrace.define.tables import make_table


class TableReader(StreamReader):
    """Reads what follows CREATE, where that is TABLE."""

    def table(self) -> Stream | Table:
        """A table with a primary key; without one, a table of Flink: with a WATERMARK or a connector it is a stream."""
        token, self._primary_key = self.take(), []
        try:
            stream = self.stream()
            primary = self._primary_key
        finally:
            self._primary_key = None
        if not primary:
            if stream.event_time is None and stream.source is None:
                raise self.error(
                    token.start,
                    f"CREATE TABLE {stream.name} has neither a PRIMARY KEY nor a WATERMARK",
                    fix=f"a table of events is a stream: write CREATE STREAM {stream.name} (…); "
                    "a table of the latest row of each key needs PRIMARY KEY (…)",
                    write="STREAM",
                    end=token.end,
                )
            return stream
        if self.unique:
            raise self.error(
                self.unique.at, f"table '{stream.name}': a table has one row for each key, so that it has no UNIQUE",
                fix="remove it; a repeated change of a row changes nothing",
            )  # fmt: skip
        if stream.idle_timeout_ms is not None:
            raise self.error(token.start, f"table '{stream.name}': a table has no idle time-out", fix="remove it")
        with located(self.source, primary[0].start):
            return make_table(
                stream.name, stream.fields, [each.text for each in primary], stream.event_time, stream.patience_ms,
                source=stream.source, format_=stream.format,
            )  # fmt: skip
