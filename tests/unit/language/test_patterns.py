"""Which patterns definitions accept, and the errors for the others."""

from __future__ import annotations

import pytest

from headrace.errors import DefinitionError
from headrace.language.check import parse_expression
from headrace.language.patterns import (
    groups,
    is_format,
    matches_nothing,
    re2_pattern,
    re2_replacement,
    refuse_pattern,
)
from headrace.types import STRING
from tests import wording


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        (r"\[([^\]]+)\]", 1), (r"\p{L}+", 0), (r"\pL\P{Lu}", 0), (r"\p{Greek}", 0), ("[[:alpha:]]+", 0),
        ("[[:^digit:]_]", 0), ("^(a|b)*$", 1), (r'"([^"\\]|\\.)*"', 1), (r"(?i)(GET|POST) (\S+)", 2), ("(?:a)(b)", 1),
        (r"(?<year>\d{4})-(?P<month>\d\d)", 2), ("a{2,5}?b*?c??", 0), (r"\Qa(b\E", 0), (r"[(\]\[]", 0), (r"\((\))", 1),
        ("", 0), ("[]a]", 0), (r"[\w.-]+@[\w-]+", 0), (r"\x41\x{20AC}", 0), ("(?s:a.b)(?-i)", 0), (r"\b\d+\B", 0),
        (r"\{a\}", 0), ("}", 0), ("ünï😀", 0), (r"\\(a)", 1),
    ],
)  # fmt: skip
def test_valid_patterns_and_their_groups(pattern, count):
    assert refuse_pattern(pattern) is None
    assert groups(pattern) == count


@pytest.mark.parametrize(
    ("pattern", "values", "fix"),
    [
        ("a++", (), "a+ instead of a++"),
        ("[a-z]{2}+", (), "leave out"),
        ("a(?=b)", (), "extract the part with a group"),
        ("(?<!a)b", (), "extract the part with a group"),
        (r"(a)\1", (), "write out"),
        (r"(?<q>a)\k<q>", (), "write out"),
        ("(?>a)", (), "write (?:"),
        ("(?x) a", (), "i, m or s"),
        ("(?iU)a", (), "i, m or s"),
        (r"\h+", (), r"[ \t]"),
        (r"[\h_]", (), r"[ \t]"),
        (r"a\Z", (), "write $"),
        (r"\u20AC", (), r"\x{20AC}"),
        (r"\p{Alpha}", (), "[[:alpha:]]"),
        (r"\P{Alpha}", (), "[[:^alpha:]]"),
        (r"\p{IsGreek}", (), r"\p{Greek}"),
        ("[a-z&&[^b]]", (), r"\["),
        ("[a&&b]", (), r"\&"),
        ("a{", (), r"\{"),
        ("(", (), None),
        ("a**", (), None),
        ("[z-a]", (), None),
        ("a{1001}", ("1001",), None),
        ("\\", (), None),
        (r"\p{L}{1000}", (), None),
    ],
)
def test_each_refusal_names_its_reason_and_what_to_write(pattern, values, fix):
    refusal = refuse_pattern(pattern)
    assert refusal is not None
    wording.check(refusal[0], *values)
    assert fix is None if refusal[1] is None else fix in refusal[1]


def test_the_message_shows_the_pattern_and_its_place():
    with pytest.raises(DefinitionError) as e:
        parse_expression("page RLIKE 'a++'", {"page": STRING})
    assert str(e.value) == (
        "<sql>:1:12: the pattern of RLIKE cannot be used: possessive quantifiers are not available; found 'a++'; "
        "leave out the second +, as in a+ instead of a++"
    )


def test_as_re2_writes_it():
    assert re2_pattern(r"(?<y>a)(b)[(](?:c)") == r"(a)(b)[(](?:c)"
    assert re2_pattern(r"(?<y>a)(b)\((c)", only=2) == r"(?:a)(b)\((?:c)"
    assert re2_replacement(r"$1-\$-\\-$0") == r"\1-$-\\-\0"
    assert matches_nothing("a*")
    assert not matches_nothing("a+")


@pytest.mark.parametrize(
    "form", ["yyyy-MM-dd HH:mm:ss.SSSSSSSSS", "yyyy''MM", "yyyy-MM-dd'T'HH", "hh a", "EEEE", "VV O x", "-"]
)
def test_valid_formats(form):
    assert is_format(form)


@pytest.mark.parametrize(
    "form", ["yyyyyyy", "MMMMM", "ddd", "aa", "VVV", "V", "OO", "SSSSSSSSSS", "Q", "", "'T'", "'", "[yyyy]", "ü"]
)
def test_formats_that_would_make_spark_fail(form):
    assert not is_format(form)
