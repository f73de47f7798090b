"""Random chains of derived streams as SQL text, which Headrace and Spark read alike, and views over them.

Where streams are joined to tables, Spark's text differs: its tables have the rows of every version, rows have the pins
of their events, and a join also compares the version. A text writes this as [[for Headrace|for Spark]].
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

BASES = {
    "visits": "id BIGINT NOT NULL, note STRING, n INT, tags ARRAY<STRING>, items ARRAY<STRUCT<sku: STRING, qty: INT>>, "
    "labels MAP<STRING, INT>, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE",
    "calls": "who STRING, n INT, note STRING, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts - INTERVAL 2 MINUTES",
}
_TYPES = {
    "visits": {"id": "BIGINT", "note": "STRING", "n": "INT", "tags": "TEXTS", "items": "ITEMS", "labels": "MAP"},
    "calls": {"who": "STRING", "n": "INT", "note": "STRING"},
}
_TIMES = {"visits": "at", "calls": "ts"}
TABLES = {
    "users": "(id STRING PRIMARY KEY, plan STRING, least INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at)",
    "codes": "(code DECIMAL(6,1) PRIMARY KEY, label STRING)",
    "pairs": "(a STRING, b BIGINT, grade INT, PRIMARY KEY (a, b))",
    "seen": "PRIMARY KEY (who) AS SELECT who, note AS what, n AS many, ts FROM calls WHERE n IS NULL OR n <> 8",
    "worn": "PRIMARY KEY (tag) AS SELECT tag, id AS wearer, at FROM visits LATERAL VIEW explode(tags) x AS tag",
}
LOGS = {"users": "users", "codes": "codes", "pairs": "pairs", "seen": "calls", "worn": "visits"}
_EXACT, _TEXT = ("INT", "BIGINT"), ("STRING",)
_KEYS = {  # of each table: the columns of its key, and of which types the values may be
    "users": {"id": _TEXT},
    "codes": {"code": _EXACT},
    "pairs": {"a": _TEXT, "b": _EXACT},
    "seen": {"who": _TEXT},
    "worn": {"tag": _TEXT},
}
_COLUMNS = {
    "users": {"plan": "STRING", "least": "INT"},
    "codes": {"label": "STRING"},
    "pairs": {"grade": "INT"},
    "seen": {"what": "STRING", "many": "INT"},
    "worn": {"wearer": "BIGINT"},
}
_TIMED = ("users", "seen", "worn")  # have an event time
PINS = "[[|, pins]]"


def for_headrace(text: str) -> str:
    """The text as Headrace reads it."""
    return re.sub(r"\[\[(.*?)\|(.*?)\]\]", r"\1", text)


def for_spark(text: str) -> str:
    """The text for a batch query, with tables of all versions."""
    return re.sub(r"\[\[(.*?)\|(.*?)\]\]", r"\2", text)


@dataclass(frozen=True)
class Rows:
    """A stream that can be read: its name, the types of its columns, and the column with the event time."""

    name: str
    types: dict[str, str]
    time: str

    def of(self, *types: str) -> list[str]:
        """The columns of one of these types."""
        return [name for name, type_ in self.types.items() if type_ in types]


@dataclass
class Chains:
    """Streams that are derived from the base streams, and from each other."""

    chance: random.Random
    joins: bool = False  # whether streams are joined to tables
    texts: dict[str, str] = field(default_factory=dict)  # by name, each after those that it reads
    streams: list[Rows] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.streams = [Rows(name, dict(types), _TIMES[name]) for name, types in _TYPES.items()]

    @property
    def queries(self) -> dict[str, str]:
        """The queries of the derived streams, for Headrace."""
        return {name: for_headrace(text) for name, text in self.texts.items()}

    @property
    def spark_queries(self) -> dict[str, str]:
        """The same for Spark."""
        texts = self.texts if self.joins else self.queries
        return {name: for_spark(text) for name, text in texts.items()}

    def add(self) -> Rows:
        """One more stream, over one or two of those that there are."""
        chance = self.chance
        source = chance.choice([*self.streams, *self.streams[-2:]])
        steps = [self._filter, self._project, self._project, self._explode, self._explode, self._union]
        make = chance.choice([*steps, *([self._join] * 5 + [self._choose] * 3 if self.joins else [])])
        query, types, time = make(source)
        made = Rows(f"s{len(self.texts)}", types, time)
        self.texts[made.name] = query
        self.streams.append(made)
        return made

    @property
    def joined(self) -> list[Rows]:
        """The streams whose own query, or one that it reads, has a join."""
        names = set[str]()
        for name, text in self.texts.items():
            if "._version" in text or any(re.search(rf"\b{other}\b", text) for other in names):
                names.add(name)
        return [rows for rows in self.streams if rows.name in names]

    def _key_of(self, source: Rows, table: str) -> dict[str, str] | None:
        """A value for each column of the key of a table; None if the rows have none of the type."""
        keys = {}
        for column, types in _KEYS[table].items():
            values = source.of(*types)
            if not values:
                return None
            value = f"c.{self.chance.choice(values)}"
            if self.chance.random() < 0.3:
                value = f"lower({value})" if types == _TEXT else f"coalesce({value}, 2)"
            keys[column] = value
        return keys

    def _residual(self, source: Rows, table: str) -> str:
        """Nothing, or one more condition of a join."""
        numbers = source.of(*_EXACT)
        column, of = self.chance.choice(list(_COLUMNS[table].items()))
        choices = [f"t.{column} IS NOT NULL", f"t.{column} > 1" if of in _EXACT else f"t.{column} <> 'free'"]
        choices += [f"c.{x} >= t.{column}" for x in numbers[:1] if of in _EXACT]
        return f" AND {self.chance.choice(choices)}" if self.chance.random() < 0.4 else ""

    def _join(self, source: Rows) -> tuple[str, dict[str, str], str]:
        chance, table = self.chance, self.chance.choice(list(TABLES))
        keys = self._key_of(source, table)
        if keys is None:
            return self._filter(source)
        number, kind = len(self.texts), chance.choice(["JOIN", "LEFT JOIN", "LEFT JOIN"])
        kept = list(source.types) if chance.random() < 0.6 else chance.sample(list(source.types), 1)
        picked = chance.sample(list(_COLUMNS[table]), chance.randint(1, len(_COLUMNS[table])))
        names = {column: chance.choice([column, f"{column}{number}"]) for column in picked}
        names = {column: f"{name}{number}" * (name in kept) or name for column, name in names.items()}
        types = {**{name: source.types[name] for name in kept}, **{names[of]: _COLUMNS[table][of] for of in picked}}
        same = " AND ".join(f"t.{key} = {value}" for key, value in keys.items())
        on = f"{same}{self._residual(source, table)}[[| AND t._version = c.pins.{LOGS[table]}]]"
        as_of, time = "", f"c.{source.time}"
        if table in _TIMED and chance.random() < 0.4:
            as_of = f"[[ FOR SYSTEM_TIME AS OF {time}|_history]]"
            on += f"[[| AND t._from <= {time} AND {time} < t._to]]"
        columns = [f"c.{name}" for name in kept] + [f"t.{column} AS {name}" for column, name in names.items()]
        query = f"SELECT {', '.join(columns)}, {time}[[|, c.pins]] FROM {source.name} c {kind} {table}{as_of} t ON {on}"
        return query, types, source.time

    def _choose(self, source: Rows) -> tuple[str, dict[str, str], str]:
        """Rows that a table has a row for, or has none for."""
        chance, table = self.chance, self.chance.choice(list(TABLES))
        keys = self._key_of(source, table)
        if keys is None:
            return self._filter(source)
        negated = chance.random() < 0.4
        pinned = f"[[| AND t._version = c.pins.{LOGS[table]}]]"
        if len(keys) == 1 and chance.random() < 0.5:
            (key, value), column = next(iter(keys.items())), next(iter(_COLUMNS[table]))
            where = chance.choice(["1 = 1", f"{column} IS NOT NULL"])
            condition = f"{value} {'NOT ' * negated}IN (SELECT {key} FROM {table} t WHERE {where}{pinned})"
            condition += f"[[| AND {value} IS NOT NULL]]" * negated
        else:
            same = " AND ".join(f"t.{key} = {value}" for key, value in keys.items())
            rest = f"{same}{self._residual(source, table)}{pinned}"
            condition = f"{'NOT ' * negated}EXISTS (SELECT 1 FROM {table} t WHERE {rest})"
        return f"SELECT * FROM {source.name} c WHERE {condition}", dict(source.types), source.time

    def _filter(self, source: Rows) -> tuple[str, dict[str, str], str]:
        columns = "*" if self.chance.random() < 0.5 else ", ".join([*source.types, source.time]) + PINS
        query = f"SELECT {columns} FROM {source.name} WHERE {self._condition(source)}"
        return query, dict(source.types), source.time

    def _condition(self, source: Rows) -> str:
        texts, numbers = source.of("STRING"), source.of("INT", "BIGINT")
        choices = [f"{source.time} >= TIMESTAMP '2026-03-01 12:01:00'"]
        choices += [
            c for x in texts for c in (f"{x} IS NOT NULL", f"{x} LIKE '%a%'", f"{x} RLIKE '[b-z]'", f"{x} <> ''")
        ]
        choices += [c for x in numbers for c in (f"{x} > 1", f"{x} % 2 = 0", f"coalesce({x}, 0) < 7", f"{x} IS NULL")]
        return " OR ".join(self.chance.sample(choices, min(len(choices), self.chance.choice([1, 1, 2]))))

    def _project(self, source: Rows) -> tuple[str, dict[str, str], str]:
        chance, columns, types = self.chance, [], {}
        for at, name in enumerate(chance.sample(list(source.types), chance.randint(1, len(source.types)))):
            of, alias = source.types[name], chance.choice([name, f"c{at}"])
            expression = name
            if of == "STRING" and chance.random() < 0.6:
                expression = chance.choice(
                    [f"lower({name})", f"concat({name}, '!')", f"regexp_replace({name}, 'a+', 'A ')", f"trim({name})"]
                )
            elif of in ("INT", "BIGINT") and chance.random() < 0.6:
                expression = chance.choice(
                    [f"{name} + 1", f"CASE WHEN {name} > 3 THEN {name} ELSE -1 END", f"coalesce({name}, 5)"]
                )
            if alias not in types:
                columns.append(f"{expression} AS {alias}")
                types[alias] = of
        time = chance.choice([source.time, "t"])
        columns.insert(chance.randint(0, len(columns)), f"{source.time} AS {time}")
        where = f" WHERE {self._condition(source)}" if chance.random() < 0.3 else ""
        query = f"SELECT {', '.join(columns)}{PINS} FROM {source.name}{where}"
        if chance.random() < 0.3:
            query = f"SELECT * FROM ({query})"
        elif chance.random() < 0.3:
            query = f"WITH q AS ({query}) SELECT {', '.join([*types, time])}{PINS} FROM q"
        return query, types, time

    def _explode(self, source: Rows) -> tuple[str, dict[str, str], str]:
        choices = source.of("TEXTS", "ITEMS", "MAP") + [f"split({name}, ' ')" for name in source.of("STRING")]
        if not choices:
            return self._filter(source)
        values = self.chance.choice(choices)
        of = source.types.get(values, "TEXTS")
        kept = {n: t for n, t in source.types.items() if t in ("STRING", "INT", "BIGINT") or self.chance.random() < 0.5}
        outer = self.chance.random() < 0.3
        number = len(self.texts)
        new = {"MAP": [f"k{number}", f"v{number}"]}.get(of, [f"e{number}"])
        with_place = self.chance.random() < 0.3
        function = f"{'pos' * with_place}explode"
        names = [*([f"p{number}"] if with_place else []), *new]
        selected = list(kept)
        types = {**kept, **({f"p{number}": "INT"} if with_place else {})}
        if of == "ITEMS":
            selected += [*names[:-1], f"{new[0]}.sku AS {new[0]}", f"{new[0]}.qty AS q{number}"]
            types |= {new[0]: "STRING", f"q{number}": "INT"}
        else:
            selected += names
            types |= {new[0]: "STRING"} | ({new[1]: "INT"} if of == "MAP" else {})
        lateral = f"LATERAL VIEW {'OUTER ' * outer}{function}({values}) x AS {', '.join(names)}"
        return f"SELECT {', '.join([*selected, source.time])}{PINS} FROM {source.name} {lateral}", types, source.time

    def _union(self, source: Rows) -> tuple[str, dict[str, str], str]:
        others = [other for other in self.streams if self._common(source, other)]
        if not others:
            return self._filter(source)
        other = self.chance.choice(others)
        pairs = self._common(source, other)
        left, right = ([*(pair[side] for pair in pairs), rows.time] for side, rows in ((0, source), (1, other)))
        query = " UNION ALL ".join(
            f"SELECT {', '.join(columns)}{PINS} FROM {rows.name}" for columns, rows in ((left, source), (right, other))
        )
        return query, {name: source.types[name] for name, _ in pairs}, source.time

    def _common(self, source: Rows, other: Rows) -> list[tuple[str, str]]:
        """Columns of equal types, in pairs."""
        pairs, used = [], set[str]()
        for name, of in source.types.items():
            for theirs in other.of(of):
                if theirs not in used and theirs != other.time and of in ("STRING", "INT", "BIGINT"):
                    pairs.append((name, theirs))
                    used.add(theirs)
                    break
        return pairs

    def definitions(self) -> str:
        """The base streams and the derived ones, for Headrace."""
        bases = [f"CREATE STREAM {name} ({fields});" for name, fields in BASES.items()]
        bases += [f"CREATE TABLE {name} {rest};" for name, rest in TABLES.items()] if self.joins else []
        return "\n".join([*bases, *(f"CREATE STREAM {name} AS {query};" for name, query in self.queries.items())])


@dataclass(frozen=True)
class ChainView:
    """A view over a stream, as Headrace and as Spark read it."""

    name: str
    source: Rows
    keys: tuple[str, ...]
    exact: tuple[str, ...]  # columns that both compute, with their names
    ordered: tuple[str, ...]  # … that depend on the order of events, which Spark does not know
    where: str

    @property
    def sql(self) -> str:
        columns = ", ".join([*self.keys, *self.exact, *self.ordered])
        group = ", ".join([*self.keys, f"window({self.source.time}, '1 minute')"])
        query = f"SELECT {columns} FROM {self.source.name}{self.where} GROUP BY {group}"
        return f"CREATE MATERIALIZED VIEW {self.name} AS {query};"

    @property
    def spark_sql(self) -> str:
        window = f"window({self.source.time}, '1 minute')"
        columns = ", ".join([f"{window}.start AS window_start", *self.keys, *self.exact])
        return f"SELECT {columns} FROM {self.source.name}{self.where} GROUP BY {', '.join([*self.keys, window])}"


def make_view(chance: random.Random, chains: Chains, name: str) -> ChainView:
    source = chance.choice(chains.joined if chains.joins else chains.streams[len(BASES) :])
    texts, numbers = source.of("STRING"), source.of("INT", "BIGINT")
    keys = tuple(chance.sample(texts + numbers, min(len(texts + numbers), chance.choice([0, 1, 1, 2]))))
    exact = ["count(*) AS hits"]
    exact += [f"sum({x}) AS sum_{x}" for x in numbers[:2]] + [f"count(DISTINCT {x}) AS kinds_{x}" for x in texts[:1]]
    exact += [f"min({x}) AS least_{x}" for x in (texts + numbers)[:2]]
    ordered = [
        c for x in (texts + numbers)[-2:]
        for c in (f"first({x}) AS first_{x}", f"last({x}, 3) AS last_{x}", f"collect_list({x}) AS all_{x}")
    ] + [f"max_by({x}, {x}) AS by_{x}" for x in numbers[:1]]  # fmt: skip
    where = f" WHERE {chains._condition(source)}" if chance.random() < 0.3 else ""
    picked = tuple(chance.sample(ordered, min(len(ordered), chance.choice([0, 1, 3]))))
    return ChainView(name, source, keys, tuple(exact), picked, where)
