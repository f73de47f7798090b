"""Streams whose events are in Kafka: spellings of other systems, one canonical form, refusals with their place."""

from __future__ import annotations

import glob
import re
from pathlib import Path

import confluent_kafka
import pytest

import headrace as hr
from headrace.define.catalog import Catalog, parse
from headrace.define.connector_options import JAVA, LIBRDKAFKA, OURS
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.define.kafka_source import Start, read_source
from headrace.define.model import Source
from headrace.errors import DefinitionError
from headrace.language.source_text import each
from headrace.plan.differences import compare
from tests import wording

FIELDS = "(page STRING, at TIMESTAMP, WATERMARK FOR at AS at)"
OURS_SQL = (
    "(connector = 'kafka', topic = 'visits', properties.bootstrap.servers = 'k:9092', "
    "scan.startup.mode = 'earliest-offset')"
)
SAME = [
    OURS_SQL,
    "('connector' = 'kafka', 'topic' = 'visits', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'json', "
    "'scan.startup.mode' = 'earliest-offset')",
    "(connector='kafka', topic='visits', properties.bootstrap.server='k:9092', scan.startup.mode='earliest') "
    "FORMAT PLAIN ENCODE JSON",
    "(KAFKA_TOPIC='visits', VALUE_FORMAT='JSON', \"bootstrap.servers\" = 'k:9092', scan.startup.mode = 'earliest')",
    "(connector = 'kafka', subscribe = 'visits', kafka.bootstrap.servers = 'k:9092', startingOffsets = 'earliest')",
    "(connector = 'kafka', topic = 'visits', properties.bootstrap.servers = 'k:9092', "
    "scan.startup.mode = 'earliest-offset', properties.isolation.level = 'read_committed', key.format = 'raw')",
]


def stream(options: str, fields: str = FIELDS):
    return parse(f"CREATE STREAM visits {fields} WITH {options}").streams["visits"]


@pytest.mark.parametrize("options", SAME)
def test_spellings_of_other_systems_are_one_definition(options):
    assert stream(options) == stream(OURS_SQL)
    assert fingerprint(stream(options)) == fingerprint(stream(OURS_SQL))


def test_sql_python_and_json_make_equal_streams():
    sql = stream(
        "(connector = 'kafka', topic = 'b;a', properties.bootstrap.servers = 'k:9092', scan.startup.mode = 'timestamp',"
        " scan.startup.timestamp-millis = 1700000000000, properties.sasl.password = 'secret:PW',"
        " properties.group.id = 'g', commit.offsets = true)"
    )
    python = hr.Stream(
        "visits", "page STRING, at TIMESTAMP", event_time="at",
        source=hr.kafka(
            "a;b", bootstrap_servers="k:9092", start="timestamp", start_timestamp_ms=1700000000000, group_id="g",
            commit_offsets=True, properties={"sasl.password": "secret:PW"},
        ),
    )  # fmt: skip
    assert sql == python
    assert from_json(to_json(sql)) == sql
    kafka = read_source(sql.source, {"security.protocol": "SASL_SSL", "group.id": "other"})
    assert kafka.topics == ("a", "b")
    assert kafka.start == Start("timestamp", 1700000000000)
    assert (kafka.group, kafka.servers) == ("g", "k:9092")
    assert kafka.properties["security.protocol"] == "SASL_SSL"


def test_streams_without_a_source_keep_their_json():
    assert "source" not in to_json(parse(f"CREATE STREAM visits {FIELDS}").streams["visits"])


@pytest.mark.parametrize("text", ["partition:0,offset:42;partition:1,offset:300", "1:300,0:42", "0:42;1:300"])
def test_offsets(text):
    source = hr.kafka("visits", options={"scan.startup.specific-offsets": text})
    assert source == hr.kafka("visits", start="specific-offsets", start_offsets={0: 42, 1: 300})
    assert read_source(source).start == Start("offsets", None, ((0, 42), (1, 300)))


def test_a_pattern():
    assert read_source(stream("(connector = 'kafka', topic-pattern = 'visits-.*')").source).pattern == "visits-.*"


def test_formats_of_values():
    line = "(value STRING)"
    assert stream("(KAFKA_TOPIC = 't', VALUE_FORMAT = 'KAFKA')", line).format == "text"
    assert stream("(connector = 'kafka', topic = 't', format = 'raw')", line).format == "text"
    assert stream("(KAFKA_TOPIC = 't', VALUE_FORMAT = 'DELIMITED')").format == "csv"
    assert stream("(connector = 'kafka', topic = 't') FORMAT PLAIN ENCODE CSV").format == "csv"


K = "connector = 'kafka', topic = 't'"
REFUSED = [
    ("(connector = 'kafka')", "a Kafka stream needs a topic"),
    ("(connector = 'kafak', topic = 't')", "a stream has no connector 'kafak'; expected 'kafka'"),
    ("(topic = 't')", "the option 'topic' is one of a connector; write connector = 'kafka' as well"),
    ("(colour = 'red')", "a stream has no option 'colour'"),
    (f"({K}, topicc = 'u')", "a Kafka stream has no option 'topicc'; did you mean 'topic'?"),
    (f"({K}, topic = 'u')", "the option 'topic' is given twice"),
    (f"({K}, kafka_topic = 'u')", "'topic' and 'kafka_topic' are the same option"),
    (f"({K}, topic-pattern = 'u')", "a topic or a pattern of topics, not both"),
    ("(connector = 'kafka', topic = 'a b')", "this cannot name a topic; found 'a b'"),
    ("(connector = 'kafka', topic = 'visits-.*')", "a pattern of names is 'topic-pattern'"),
    ("(connector = 'kafka', topic-pattern = '(')", "the pattern of topics is not a regular expression"),
    (f"({K}, scan.startup.mode = 'earlyest')", "did you mean 'earliest'?"),
    (f"({K}, scan.startup.mode = 'group-offsets')", "offsets are kept in the lake, not in a group"),
    (f"({K}, startingOffsets = '{{}}')", "scan.startup.specific-offsets"),
    (f"({K}, scan.startup.mode = 'timestamp')", "needs the option 'scan.startup.timestamp-millis'"),
    (f"({K}, scan.startup.mode = 'latest', scan.startup.timestamp-millis = 5)", "is used with the mode 'timestamp'"),
    (f"({K}, scan.startup.timestamp-millis = 'now')", "found 'now'; expected a whole number"),
    (f"({K}, scan.startup.timestamp-millis = 1700000000000000)", "after the year 9999"),
    (f"({K}, scan.startup.specific-offsets = '0=1')", "these offsets cannot be read; found '0=1'"),
    (f"({K}, scan.startup.specific-offsets = '0:1,0:2')", "each partition has one offset"),
    ("(connector = 'kafka', topic = 'a;b', scan.startup.specific-offsets = '0:1')", "offsets are those of one topic"),
    (f"({K}, commit.offsets = true)", "expected 'properties.group.id'"),
    (f"({K}, commit.offsets = 'perhaps')", "found 'perhaps'; expected true or false"),
    (f"({K}, scan.topic-partition-discovery.interval = 'soon')", "'scan.topic-partition-discovery.interval' has an"),
    (f"({K}, scan.topic-partition-discovery.interval = '1 ms')", "is too short"),
    (f"({K}, properties.sasl.jaas.config = 'x')", "'properties.sasl.password' = 'secret:NAME'"),
    (f"({K}, properties.auto.offset.reset = 'latest')", "cannot be set: Headrace sets it; write 'scan.startup.mode'"),
    (f"({K}, properties.isolation.level = 'read_uncommitted')", "expected 'read_committed'"),
    (f"({K}, properties.sasl.usernam = 'x')", "did you mean 'properties.sasl.username'?"),
    (f"({K}, properties.zzz = 'x')", "has no setting 'zzz'"),
    (f"({K}, security.protocol = 'SSL')", "did you mean 'properties.security.protocol'?"),
    (f"({K}, topic.pattern = '')", "the option 'topic.pattern' is empty"),
    (f"({K}, key.format = 'avro')", "the key of a record is read as text"),
    ("(KAFKA_TOPIC = 't', PARTITIONS = 6)", "Headrace makes no topics"),
    ("(KAFKA_TOPIC = 't', TIMESTAMP = 'seen')", "write WATERMARK FOR seen AS seen inside the parentheses"),
    (
        "(KAFKA_TOPIC = 't', TIMESTAMP_FORMAT = 'yyyy')",
        "at TIMESTAMP AS to_timestamp(field, 'yyyy'), WATERMARK FOR at AS at",
    ),
    ("(KAFKA_TOPIC = 't', VALUE_FORMAT = 'AVRO')", "the format AVRO is not available yet; expected JSON, TEXT or CSV"),
    (f"({K}, json.ignore-parse-errors = 'true')", "a value that cannot be read is a dead letter"),
    (f"({K}, csv.field-delimiter = '||')", "the delimiter of cells is one character; found '||'"),
    (f"({K}, a = (5))", "a value for the option a"),
    (f"({K}, = 5)", "the name of an option"),
    (f"({K}) FORMAT UPSERT ENCODE JSON", "FORMAT UPSERT is not available"),
    (f"({K}) FORMAT PLAIN ENCODE JSON (a = 'b')", "a format has no options here"),
]


@pytest.mark.parametrize(("options", "says"), REFUSED)
def test_refused_with_its_place(options, says):
    with pytest.raises(DefinitionError) as caught:
        stream(options)
    assert says in str(caught.value)
    assert caught.value.where is not None
    assert caught.value.excerpt


def test_a_mistake_of_an_option_does_not_hide_that_the_stream_is_in_kafka():
    with pytest.raises(DefinitionError) as caught:
        parse("CREATE STREAM s (k STRING KEY, a INT) WITH (KAFKA_TOPIC = 't', PARTITIONS = 6)")
    assert [error.message for error in each(caught.value)] == ["a Kafka stream has no option 'partitions'"]


def test_the_caret_is_at_the_option():
    with pytest.raises(DefinitionError) as caught:
        parse("CREATE STREAM s (a INT) WITH (\n  connector = 'kafka',\n  topic = 't',\n  topicc = 'u')")
    assert str(caught.value.where) == "<sql>:4:3"
    assert caught.value.excerpt == "4 |   topicc = 'u')\n  |   ^"


def test_csv_needs_kafka():
    with wording.raises(DefinitionError, "TEXT"):
        parse("CREATE STREAM s (a INT) FORMAT CSV")


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ({"topic": "t", "properties": {"sasl.password": 5.5}}, ("properties.sasl.password",)),
        ({}, ()),
    ],
)
def test_python_refusals_have_a_place(arguments, values):
    with wording.raises(DefinitionError, *values) as caught:
        hr.kafka(**arguments)
    assert caught.value.where.file == __file__


def test_a_source_in_python_that_is_none():
    with wording.raises(DefinitionError):
        hr.Stream("s", "a INT", source="kafka")


def test_no_secret_in_the_plan():
    visits = stream(
        "(connector = 'kafka', topic = 't', properties.sasl.username = 'me', properties.sasl.password = 'hunter2',"
        " properties.ssl.key.password = 'secret:PW')"
    )
    plan = compare(Catalog(), Catalog({"visits": visits}))
    text = repr(plan.as_dict())
    assert "hunter2" not in text
    assert "source option: properties.sasl.password = ***" in text
    assert "properties.ssl.key.password = secret:PW" in text


def test_the_settings_of_librdkafka_are_known():
    """Each of ours exists in the library, and each of its settings is passed on or refused with a reason."""
    library = glob.glob(str(Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs" / "librdkafka*"))
    for name in sorted(LIBRDKAFKA):
        assert _is_setting(name), name
    if not library:
        pytest.skip("librdkafka is not bundled with confluent-kafka here")
    texts = set(re.findall(rb"(?<=\0)[a-z][a-z0-9]*(?:\.[a-z0-9]+)+(?=\0)", Path(library[0]).read_bytes()))
    settings = {text.decode() for text in texts if _is_setting(text.decode())}
    assert settings - LIBRDKAFKA - set(JAVA) - set(OURS) - {"isolation.level"} == set()


def _is_setting(name: str) -> bool:
    try:  # a second setting that does not exist: no client is ever made
        confluent_kafka.Producer({name: "\x01", "no.such.setting": "1"})
    except TypeError:
        return False  # a callback
    except confluent_kafka.KafkaException as error:
        return f'No such configuration property: "{name}"' not in str(error)
    raise AssertionError("a client was made")


def test_a_source_gives_its_options():
    source = Source("kafka", (("topic", "t"),))
    assert (source.get("topic"), source.get("other")) == ("t", None)


BASE = "(connector = 'kafka', topic = 'a', properties.bootstrap.servers = 'k:9092', properties.sasl.password = 'x')"


def _planned(options: str):
    running = Catalog({"visits": stream(BASE)})
    (change,) = compare(running, Catalog({"visits": stream(options)})).changes
    return change


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("'k:9092'", "'other:9092'", ("9092",)),
        ("'x'", "'hunter2'", ()),
        ("'x'", "'secret:PW'", ("PW",)),
        ("'a'", "'a;b'", ()),
        ("'a'", "'a', scan.startup.mode = 'latest'", ()),
    ],
)
def test_changes_of_a_source_that_are_free(old, new, values):
    change = _planned(BASE.replace(old, new))
    assert (change.kind, change.how) == ("change", "free")
    wording.check(change.reason)
    wording.check(change.details[0], *values)
    assert "hunter2" not in repr(change)


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("topic = 'a'", "topic = 'b'", ()),
        ("topic = 'a'", "topic-pattern = 'a'", ()),
    ],
)
def test_changes_of_a_source_that_are_refused(old, new, values):
    change = _planned(BASE.replace(old, new))
    assert change.kind == "refuse"
    wording.check(change.details[0], *values)
    wording.check(change.reason)


def test_a_stream_does_not_move_to_kafka():
    running = Catalog({"visits": parse(f"CREATE STREAM visits {FIELDS}").streams["visits"]})
    (change,) = compare(running, Catalog({"visits": stream(BASE)})).changes
    assert (change.kind, change.details) == ("refuse", ("source: HTTP and files → kafka",))
