"""Expressions over aggregates have Spark's values: Python computes what Spark does, for every row."""

# ruff: noqa: E501 - one case per line

from __future__ import annotations

import math
import random
from datetime import timedelta
from typing import Any

from headrace.engine.python_evaluation import Evaluate, compile_expression
from headrace.engine.python_functions import EVALUATED, NULLS
from headrace.engine.spark_views import for_spark
from headrace.errors import DefinitionError
from headrace.format import EPOCH
from headrace.language.check import Scope, check
from headrace.language.expressions import parse_tree
from headrace.language.functions import FUNCTIONS
from headrace.language.source_text import SourceText
from headrace.language.terms import Expression
from headrace.types import DOUBLE, TIMESTAMP, Type

from .expressions import DERIVED, SAMPLES, chunks
from .hostile import EXPRESSIONS
from .over_aggregates import MORE, WIDE, drawn, rows

TYPES = {**{name: of for name, (of, _) in SAMPLES.items()}, **WIDE, **{name: of for name, (of, _) in DERIVED.items()}}
NEARLY = (
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "exp",
    "ln",
    "log",
    "log2",
    "log10",
    "pow",
    "cbrt",
)  # the last digit is the platform's


def compiled(text: str) -> tuple[Expression, Evaluate] | None:
    source = SourceText(text)
    try:
        expression = check(source, parse_tree(source), Scope(TYPES))
        return expression, compile_expression(expression, tuple(TYPES.items()))
    except DefinitionError:
        return None


def test_python_computes_what_spark_does(spark: Any) -> None:
    chance = random.Random(11)
    texts = list(dict.fromkeys([*EXPRESSIONS, *MORE, *(drawn(chance, chance.choice((1, 2, 3))) for _ in range(500))]))
    translations = {text: translated for text in texts if (translated := compiled(text))}
    assert len(translations) > 0.6 * len(texts)
    frame = spark.createDataFrame(rows()).coalesce(1)
    frame = frame.selectExpr("*", *(f"CAST({sql} AS {of}) AS {name}" for name, (of, sql) in DERIVED.items())).cache()
    theirs = [
        column for chunk in chunks(list(translations.values()), 40) for column in by_spark(frame, [e for e, _ in chunk])
    ]
    events = frame.toArrow()
    values = list(zip(*(events.column(name).to_pylist() for name in TYPES), strict=True))
    different = []
    for (text, (expression, translated)), expected in zip(translations.items(), theirs, strict=True):
        for row, b in zip(values, expected, strict=True):
            a = translated(row)
            a = unix_micros(a) if expression.type == TIMESTAMP and a is not None else a
            if not same(a, b, expression.type, nearly=any(f"{name}(" in text for name in NEARLY)):
                used = {name: value for name, value in zip(TYPES, row, strict=True) if name in text}
                different.append(f"{text} ({expression.type}) of {used}: Python {a!r}, Spark {b!r}")
                break
    assert not different, f"{len(different)}\n" + "\n".join(different)


def by_spark(frame: Any, expressions: list[Expression]) -> list[tuple[Any, ...]]:
    written, _ = for_spark(expressions, TYPES)
    texts = [f"unix_micros({e.sql})" if e.type == TIMESTAMP else e.sql for e in written]
    return list(zip(*frame.selectExpr(*(f"{text} AS c{at}" for at, text in enumerate(texts))).collect(), strict=True))


def unix_micros(time: Any) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def same(a: Any, b: Any, of: Type, *, nearly: bool) -> bool:
    if of == DOUBLE and a is not None and b is not None:
        return a == b or (a != a and b != b) or (nearly and math.isclose(a, b, rel_tol=1e-14))
    return bool(a == b)


def test_every_function_is_either_computed_or_refused() -> None:
    assert set(EVALUATED) | set(NULLS) <= set(FUNCTIONS)
    refused = set(FUNCTIONS) - set(EVALUATED) - set(NULLS)
    assert refused == {
        "regexp_extract", "regexp_replace", "regexp_like", "initcap", "soundex", "levenshtein", "get_json_object", "parse_url", "date_format",
        "xxhash64", "hash", "split", "from_utc_timestamp", "to_utc_timestamp",
    }  # fmt: skip
