"""Options of connectors, the same in SQL, in Python and in headrace.toml; and the settings of Kafka clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.errors import DefinitionError, nearest
from headrace.language.durations import parse_duration

_BOOLEANS = {"true": True, "false": False}


class OptionError(DefinitionError):
    """A mistake in one option; `option` is its name as it was written, in lower case.

    It is mended by another name (`rename`), by leaving the option out (`remove`) or by another option (`write`).
    """

    def __init__(
        self,
        option: str,
        message: str,
        *,
        found: str | None = None,
        expected: str | None = None,
        fix: str | None = None,
        write: str | None = None,
        rename: str | None = None,
        remove: bool = False,
    ) -> None:
        fix = fix or (f"write {write}" if write else f"did you mean '{rename}'?" if rename else None)
        super().__init__(message, found=found, expected=expected, fix=fix or ("remove it" if remove else None))
        self.option = option
        self.write = write
        self.rename = rename
        self.remove = remove


def unknown_option(name: str, known: Iterable[str], owner: str) -> OptionError:
    """The error of a name that is no option: with the nearest one, or all of them."""
    names = list(known)
    near = nearest(name, names)
    fix = None if near else f"options are: {', '.join(names)}"
    return OptionError(name, f"{owner} has no option '{name}'", fix=fix, rename=near, remove=near is None)


def read_boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    """A value that is true or false."""
    value = options.get(name)
    if value is None:
        return default
    if value.lower() not in _BOOLEANS:
        raise OptionError(
            name, f"the option '{name}' has an invalid value", found=f"'{value}'", expected="true or false"
        )
    return _BOOLEANS[value.lower()]


def read_integer(options: Mapping[str, str], name: str, *, least: int = 0) -> int | None:
    """A whole number."""
    value = options.get(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or int(value) < least:
        expected = "a whole number" + (f", at least {least}" if least else "")
        raise OptionError(name, f"the option '{name}' has an invalid value", found=f"'{value}'", expected=expected)
    return int(value)


def read_milliseconds(options: Mapping[str, str], name: str, default_ms: int, *, least_ms: int = 0) -> int:
    """A duration such as '30 s'; a bare number counts milliseconds."""
    value = options.get(name)
    if value is None:
        return default_ms
    try:
        duration_ms = int(value) if value.isascii() and value.isdigit() else parse_duration(value)
    except DefinitionError as error:
        raise OptionError(
            name, f"the option '{name}' has an invalid value", found=f"'{value}'", expected=error.expected
        ) from None
    if duration_ms < least_ms:
        raise OptionError(
            name, f"the option '{name}' is too short", found=f"'{value}'", expected=f"at least {least_ms} ms"
        )
    return duration_ms


PREFIX = "properties."
SERVERS = "bootstrap.servers"
_OURS = "Headrace sets it"
_NOT_NEEDED = "remove it"

# Of librdkafka 2.16, without callbacks and what is for its developers. A test compares it with the library.
LIBRDKAFKA = frozenset("""
    acks allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
    batch.num.messages batch.size bootstrap.servers broker.address.family broker.address.ttl broker.version.fallback
    check.crcs client.dns.lookup client.id client.rack client.software.name client.software.version compression.codec
    compression.level compression.type connections.max.idle.ms coordinator.query.interval.ms debug
    delivery.timeout.ms enable.metrics.push enable.random.seed enable.sasl.oauthbearer.unsecure.jwt
    enable.sparse.connections enable.ssl.certificate.verification fetch.error.backoff.ms fetch.max.bytes
    fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms group.id https.ca.location
    https.ca.pem linger.ms log.connection.close log_level max.in.flight max.in.flight.requests.per.connection
    max.partition.fetch.bytes message.copy.max.bytes message.max.bytes message.send.max.retries message.timeout.ms
    metadata.broker.list metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metadata.request.timeout.ms partitioner plugin.library.paths queue.buffering.backpressure.threshold
    queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes
    queued.min.messages queuing.strategy receive.message.max.bytes reconnect.backoff.jitter.ms
    reconnect.backoff.max.ms reconnect.backoff.ms request.required.acks request.timeout.ms retries
    retry.backoff.max.ms retry.backoff.ms sasl.kerberos.keytab sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism
    sasl.mechanisms sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
    sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
    sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope
    sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol
    session.timeout.ms socket.blocking.max.ms socket.connection.setup.timeout.ms socket.keepalive.enable
    socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms
    ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem
    ssl.cipher.suites ssl.crl.location ssl.curves.list ssl.endpoint.identification.algorithm ssl.engine.id
    ssl.engine.location ssl.key.location ssl.key.password ssl.key.pem ssl.keystore.location ssl.keystore.password
    ssl.providers ssl.sigalgs.list statistics.interval.ms sticky.partitioning.linger.ms test.mock.broker.rtt
    test.mock.num.brokers topic.blacklist topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
    heartbeat.interval.ms max.poll.interval.ms group.instance.id
""".split())  # fmt: skip  # noqa: SIM905 - some hundred names

# What Headrace decides by itself, because its guarantees rest on it.
OURS = {
    "auto.offset.reset": "write 'scan.startup.mode' = 'earliest-offset' or 'latest-offset'",
    "enable.auto.commit": "write 'commit.offsets' = 'true' to have offsets committed for monitoring tools",
    "auto.commit.enable": "write 'commit.offsets' = 'true' to have offsets committed for monitoring tools",
    "auto.commit.interval.ms": _NOT_NEEDED,
    "enable.auto.offset.store": _NOT_NEEDED,
    "enable.partition.eof": _NOT_NEEDED,
    "enable.idempotence": "remove it: producers are always idempotent",
    "enable.gapless.guarantee": _NOT_NEEDED,
    "group.protocol": _NOT_NEEDED,
    "group.protocol.type": _NOT_NEEDED,
    "group.remote.assignor": _NOT_NEEDED,
    "partition.assignment.strategy": _NOT_NEEDED,
    "offset.store.method": _NOT_NEEDED,
    "offset.store.path": _NOT_NEEDED,
    "offset.store.sync.interval.ms": _NOT_NEEDED,
    "produce.offset.report": _NOT_NEEDED,
    "delivery.report.only.error": _NOT_NEEDED,
    "consume.callback.max.messages": _NOT_NEEDED,
    "share.acknowledgement.mode": _NOT_NEEDED,
    "transactional.id": _NOT_NEEDED,
    "transaction.timeout.ms": _NOT_NEEDED,
    "builtin.features": _NOT_NEEDED,
    "internal.termination.signal": _NOT_NEEDED,
    "log.queue": _NOT_NEEDED,
    "log.thread.name": _NOT_NEEDED,
}

# Names of the Java client that librdkafka spells otherwise or does not have.
JAVA = {
    "sasl.jaas.config": "write 'properties.sasl.username' = '…', 'properties.sasl.password' = 'secret:NAME'",
    "sasl.client.callback.handler.class": "write 'properties.sasl.oauthbearer.method' = 'oidc'",
    "sasl.login.callback.handler.class": "write 'properties.sasl.oauthbearer.method' = 'oidc'",
    "sasl.login.class": _NOT_NEEDED,
    "ssl.truststore.location": "write 'properties.ssl.ca.location' = '/path/ca.pem', a file in PEM format",
    "ssl.truststore.certificates": "write 'properties.ssl.ca.pem' = 'secret:file:/path/ca.pem'",
    "ssl.truststore.password": "remove it: 'properties.ssl.ca.location' names a file in PEM format, without a password",
    "ssl.truststore.type": "remove it: 'properties.ssl.ca.location' names a file in PEM format",
    "ssl.keystore.type": "remove it: 'properties.ssl.keystore.location' names a PKCS#12 file",
    "ssl.keystore.key": "write 'properties.ssl.key.pem' = 'secret:file:/path/key.pem'",
    "ssl.keystore.certificate.chain": "write 'properties.ssl.certificate.pem' = 'secret:file:/path/cert.pem'",
    "ssl.protocol": _NOT_NEEDED,
    "ssl.enabled.protocols": _NOT_NEEDED,
    "key.deserializer": "remove it: FORMAT says what a value is, and a field FROM KEY is text",
    "value.deserializer": "remove it: 'format' = 'json' | 'text' | 'csv' says what a value is",
    "key.serializer": "remove it: keys are text",
    "value.serializer": "remove it: 'format' says what a value is",
    "max.poll.records": "remove it: `append_mb` in headrace.toml limits a commit",
    "default.api.timeout.ms": "write 'properties.socket.timeout.ms'",
    "fetch.max.wait.ms": "write 'properties.fetch.wait.max.ms'",
    "receive.buffer.bytes": "write 'properties.socket.receive.buffer.bytes'",
    "send.buffer.bytes": "write 'properties.socket.send.buffer.bytes'",
    "socket.connection.setup.timeout.max.ms": "write 'properties.socket.connection.setup.timeout.ms'",
    "interceptor.classes": _NOT_NEEDED,
    "metric.reporters": _NOT_NEEDED,
    "exclude.internal.topics": _NOT_NEEDED,
}


def check_property(written: str, name: str, value: str) -> None:
    """Refuse a setting that librdkafka does not have or that Headrace sets; `written` is the name of the option."""
    if name == "isolation.level":
        if value.lower() != "read_committed":
            raise OptionError(
                written, "events of transactions that are aborted are never read", found=f"'{value}'",
                expected="'read_committed'", remove=True,
            )  # fmt: skip
        return
    if name in JAVA:
        message = f"'{name}' is a setting of the Java client, which is not used here"
        raise OptionError(written, message, fix=JAVA[name], remove=JAVA[name].startswith(_NOT_NEEDED))
    if name in OURS:
        remove = OURS[name].startswith(_NOT_NEEDED)
        raise OptionError(written, f"'{name}' cannot be set: {_OURS}", fix=OURS[name], remove=remove)
    if name not in LIBRDKAFKA:
        near = nearest(name, LIBRDKAFKA, 0.7)
        raise OptionError(
            written, f"librdkafka, the Kafka client, has no setting '{name}'",
            fix=None if near else "remove it; librdkafka's CONFIGURATION.md lists its settings",
            rename=f"{PREFIX}{near}" if near else None, remove=near is None,
        )  # fmt: skip
