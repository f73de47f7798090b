"""Random chains of derived streams as SQL text, which Headrace and Spark read alike, and views over them."""

from __future__ import annotations

import random
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
    queries: dict[str, str] = field(default_factory=dict)  # by name, each after those that it reads
    streams: list[Rows] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.streams = [Rows(name, dict(types), _TIMES[name]) for name, types in _TYPES.items()]

    def add(self) -> Rows:
        """One more stream, over one or two of those that there are."""
        chance = self.chance
        source = chance.choice([*self.streams, *self.streams[-2:]])
        make = chance.choice([self._filter, self._project, self._project, self._explode, self._explode, self._union])
        query, types, time = make(source)
        made = Rows(f"s{len(self.queries)}", types, time)
        self.queries[made.name] = query
        self.streams.append(made)
        return made

    def _filter(self, source: Rows) -> tuple[str, dict[str, str], str]:
        columns = "*" if self.chance.random() < 0.5 else ", ".join([*source.types, source.time])
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
        query = f"SELECT {', '.join(columns)} FROM {source.name}{where}"
        if chance.random() < 0.3:
            query = f"SELECT * FROM ({query})"
        elif chance.random() < 0.3:
            query = f"WITH q AS ({query}) SELECT {', '.join([*types, time])} FROM q"
        return query, types, time

    def _explode(self, source: Rows) -> tuple[str, dict[str, str], str]:
        choices = source.of("TEXTS", "ITEMS", "MAP") + [f"split({name}, ' ')" for name in source.of("STRING")]
        if not choices:
            return self._filter(source)
        values = self.chance.choice(choices)
        of = source.types.get(values, "TEXTS")
        kept = {n: t for n, t in source.types.items() if t in ("STRING", "INT", "BIGINT") or self.chance.random() < 0.5}
        outer = self.chance.random() < 0.3
        number = len(self.queries)
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
        return f"SELECT {', '.join([*selected, source.time])} FROM {source.name} {lateral}", types, source.time

    def _union(self, source: Rows) -> tuple[str, dict[str, str], str]:
        others = [other for other in self.streams if self._common(source, other)]
        if not others:
            return self._filter(source)
        other = self.chance.choice(others)
        pairs = self._common(source, other)
        left, right = ([*(pair[side] for pair in pairs), rows.time] for side, rows in ((0, source), (1, other)))
        query = f"SELECT {', '.join(left)} FROM {source.name} UNION ALL SELECT {', '.join(right)} FROM {other.name}"
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
    source = chance.choice(chains.streams[len(BASES) :])
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
