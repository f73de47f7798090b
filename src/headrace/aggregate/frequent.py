"""The most frequent values, by a sketch of Apache DataSketches, which Spark's own function writes too."""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from headrace.aggregate.aggregate import Aggregate, ArrowFunction, Example, Partial, PartialColumn, Value
from headrace.aggregate.kernels import Lists, binary, hash_function, join, spark_hash, unhashed_double
from headrace.aggregate.merges import EXACT, Merge, order_of
from headrace.aggregate.signature import Argument, ArgumentKind, Constant, Parameter, whole
from headrace.language.terms import Expression
from headrace.lazy import datasketches, np, pa, pc
from headrace.types import BIGINT, BINARY, DOUBLE, INT, STRING, Type, array, struct

MOST_K, TRACKED, MOST_TRACKED = 1_000, 1_000, 100_000
LOAD = 0.75  # how full the sketch's hash table may be
LEAST_LOG2 = 3  # of its slots
MOST_PLAIN_SCALE = 6  # Spark writes DECIMALs of a larger scale with an exponent
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FORMAT = 4 | 1 << 8 | 10 << 16  # 4 integers before the counts, version, family
COUNTED = ArgumentKind(
    "a text, a number, BOOLEAN, DATE or TIMESTAMP",
    ("STRING", "INT", "BIGINT", "DOUBLE", "DECIMAL", "BOOLEAN", "DATE", "TIMESTAMP"),
)


def merge_sketches(sketches: Sequence[bytes]) -> bytes:
    """The sketch of all values."""
    total = _open(sketches[0])
    for sketch in sketches[1:]:
        total.merge(_open(sketch))
    return bytes(total.serialize())


FREQUENT = Merge("frequent", lambda a, b: merge_sketches((a, b)), "frequent_union({0}, {1})", None, merge_sketches)


def sketch_texts(lists: pa.Array, log2: int) -> pa.Array:
    """A sketch of each list of texts.

    One that is not full holds them with their counts: such sketches, which are most, are written for all lists at once.
    """
    each = Lists.of(lists)
    if not len(each.counts):
        return pa.nulls(len(lists), pa.binary())
    encoded = pc.dictionary_encode(each.values)
    codes, counts, ends = each.counted(np.asarray(encoded.indices).astype(np.uint32))
    items, lengths = encoded.dictionary.take(pa.array(codes)), np.diff(ends)
    heads = np.zeros((len(lengths), 4), dtype=np.int64)
    slots = np.maximum(LEAST_LOG2, np.ceil(np.log2(lengths / LOAD))).astype(np.int64)
    heads[:, 0] = FORMAT | log2 << 24 | np.minimum(slots, log2) << 32
    heads[:, 1] = lengths
    heads[:, 2] = each.counts
    sizes = np.asarray(pc.binary_length(items), dtype=np.int32)
    texts = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), join(binary(sizes, 4), items.cast(pa.binary())))
    sketches = join(binary(heads, 32), binary(counts, 8, ends), pc.binary_join(texts, b""))
    is_large = lengths > LOAD * (1 << log2)
    large = []
    for at in np.flatnonzero(is_large):
        sketch, own = datasketches.frequent_strings_sketch(log2), slice(ends[at], ends[at + 1])
        deque(map(sketch.update, items[own].to_pylist(), counts[own].tolist()), maxlen=0)  # a loop in C
        large.append(bytes(sketch.serialize()))
    return each.spread(sketches, is_large, large)


class ApproxTopK(Aggregate):
    """approx_top_k(x, 10): the 10 most frequent x with their counts; NULL skipped."""

    name = "approx_top_k"
    takes = (Argument("expression", COUNTED),)
    constants = (
        Parameter("k", int, f"a whole number from 1 to {MOST_K}", (1, 3)),
        Parameter(
            "max_items_tracked",
            int,
            f"a whole number from k to {MOST_TRACKED}",
            (50,),
            optional=True,
        ),
    )
    summary = (
        "The most frequent values and how often each occurs, the most frequent first, equally frequent ones in the "
        f"order of the values. `max_items_tracked` ({TRACKED} unless given) is how many values are counted."
    )
    gives = "ARRAY of STRUCT<item, count>"
    examples = (
        Example(
            (STRING,),
            (("b",), ("a",), (None,), ("c",), ("c",)),
            [{"item": "c", "count": 2}, {"item": "a", "count": 1}],
            (2,),
        ),
        Example((DOUBLE,), ((0.1,), (-2.5e300,), (0.1,)), [{"item": 0.1, "count": 2}], (1,)),
        Example((INT,), ((None,),), None, (1,)),
    )
    approximate = (
        "exact while there are at most 1.5 x max_items_tracked different values; else each count is at most "
        f"2.7/max_items_tracked of all values too high ({270 / TRACKED:g} % unless given)"
    )
    functions = (FREQUENT,)
    runs_in_duckdb = True

    @classmethod
    def refuse(cls, arguments: Sequence[Expression], parameters: Sequence[Constant] = ()) -> str | None:
        reason = super().refuse(arguments, parameters)
        if reason:
            return reason
        of, k, tracked = arguments[0].type, whole(parameters[0]), _tracked(parameters)
        if of.name == "DECIMAL" and of.scale > MOST_PLAIN_SCALE:
            narrower = f"DECIMAL({of.precision - of.scale + MOST_PLAIN_SCALE},{MOST_PLAIN_SCALE})"
            return (
                f"approx_top_k takes a DECIMAL of at most {MOST_PLAIN_SCALE} digits after the point; cast to {narrower}"
            )
        if not 1 <= k <= MOST_K:
            return f"approx_top_k takes a whole number from 1 to {MOST_K} as 'k', found {k}"
        if not k <= tracked <= MOST_TRACKED:
            return (
                f"approx_top_k takes a whole number from k ({k}) to {MOST_TRACKED} as 'max_items_tracked', "
                f"found {tracked}; {TRACKED} is used if it is left out"
            )
        return None

    @property
    def type(self) -> Type:
        return array(struct(("item", self.argument.type), ("count", BIGINT)))

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", BINARY, FREQUENT),)

    @property
    def stored_as(self) -> Aggregate:
        """One sketch tells the most frequent values, however many are asked for."""
        return replace(self, parameters=self.parameters[1:])

    @property
    def log2(self) -> int:
        """Of the slots in the sketch's hash table, as Spark chooses it."""
        return max(LEAST_LOG2, math.ceil(math.log2(math.ceil(_tracked(self.parameters) / LOAD))))

    def spark_columns(self, x: str) -> tuple[str, ...]:
        text = {
            "DATE": f"CAST(unix_date({x}) AS STRING)",
            "TIMESTAMP": f"CAST(unix_micros({x}) AS STRING)",
            # Each engine writes a DOUBLE in its own way; the hash is the same in all, and can be undone.
            "DOUBLE": f"CAST(xxhash64({x}) AS STRING)",
        }
        item = text.get(self.argument.type.name, f"CAST({x} AS STRING)")
        return (f"({self.or_null(f'approx_top_k_accumulate({item}, {_tracked(self.parameters)})', x)}).sketch",)

    def duckdb_columns(self, x: str) -> tuple[str, ...]:
        text = {"DATE": f"CAST({x} - DATE '1970-01-01' AS VARCHAR)", "TIMESTAMP": f"CAST(epoch_us({x}) AS VARCHAR)"}
        item = text.get(self.argument.type.name, f"CAST({x} AS VARCHAR)")
        return (f"{self.lifts[0].name}({self.of_values(f'list({item})', x)})",)

    @property
    def prepares(self) -> ArrowFunction | None:
        return hash_function(self.argument.type) if self.argument.type == DOUBLE else None

    @property
    def lifts(self) -> tuple[ArrowFunction, ...]:
        run = functools.partial(sketch_texts, log2=self.log2)
        return (ArrowFunction(f"frequent_sketch_{self.log2}_of", STRING, BINARY, run, of_list=True),)

    def lift(self, x: Value) -> Partial:
        if x is None:
            return (None,)
        sketch = datasketches.frequent_strings_sketch(self.log2)
        sketch.update(self._text(x))
        return (bytes(sketch.serialize()),)

    def _text(self, x: Value) -> str:
        match self.argument.type.name:
            case "BOOLEAN":
                return str(x).lower()
            case "DATE":
                return str((x - EPOCH.date()).days)
            case "TIMESTAMP":
                return str((x - EPOCH) // timedelta(microseconds=1))
            case "DECIMAL":
                return f"{EXACT.quantize(Decimal(x), Decimal(1).scaleb(-self.argument.type.scale)):f}"
            case "DOUBLE":
                return str(spark_hash(x, self.argument.type))
        return str(x)

    def present(self, partial: Partial) -> Value:
        if partial[0] is None:
            return None
        items = [(-count, self._value(text)) for text, (_, count) in _bounds(_open(partial[0])).items()]
        items = sorted(items, key=order_of)[: whole(self.parameters[0])]
        return [{"item": item, "count": -count} for count, item in items]

    def _value(self, text: str) -> Value:
        match self.argument.type.name:
            case "INT" | "BIGINT":
                return int(text)
            case "DOUBLE":
                return unhashed_double(int(text))
            case "BOOLEAN":
                return text == "true"
            case "DECIMAL":
                return Decimal(text)
            case "DATE":
                return (EPOCH + timedelta(days=int(text))).date()
            case "TIMESTAMP":
                return EPOCH + timedelta(microseconds=int(text))
        return text

    def agrees(self, a: Partial, b: Partial) -> bool:
        """Whether no value is certainly more frequent in one than in the other."""
        if a[0] is None or b[0] is None:
            return a[0] is b[0]
        one, other = _open(a[0]), _open(b[0])
        if one.total_weight != other.total_weight:
            return False
        in_one, in_other = _bounds(one), _bounds(other)
        for text in in_one.keys() | in_other.keys():
            (low, high), (other_low, other_high) = in_one.get(text, _unseen(one)), in_other.get(text, _unseen(other))
            if low > other_high or other_low > high:
                return False
        return True


def _bounds(sketch: Any) -> dict[str, tuple[int, int]]:
    """How often each value occurs at least and at most."""
    rows = sketch.get_frequent_items(datasketches.frequent_items_error_type.NO_FALSE_NEGATIVES)
    return {text: (low, high) for text, _, low, high in rows}


def _unseen(sketch: Any) -> tuple[int, int]:
    """The same of a value that the sketch does not hold."""
    return 0, sketch.get_upper_bound("\0 no value")


def _open(sketch: bytes) -> Any:
    return datasketches.frequent_strings_sketch.deserialize(sketch)


def _tracked(parameters: Sequence[Constant]) -> int:
    return whole(parameters[1]) if len(parameters) > 1 else TRACKED
