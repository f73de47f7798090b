"""One Kafka broker: a KRaft node whose jars come by Maven."""

from __future__ import annotations

import base64
import os
import re
import secrets
import shutil
import subprocess
import uuid
from pathlib import Path

from .folder import Folder
from .jars import fetch_jars
from .process import NotAvailable, State, choose_port, is_open, require_free, run, start

FILES = Path(__file__).resolve().parents[1] / "kafka"
QUICK = "-XX:TieredStopAtLevel=1"  # a broker of tests lives for minutes; KAFKA_OPTS replaces it


def find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    fix = "install a JDK 17 or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    if not java:
        raise NotAvailable(f"kafka: Java was not found; expected Java 17 or newer; {fix}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if not version or int(version[1]) < 17:
        raise NotAvailable(f"kafka: Java is too old; found {version[1] if version else said!r}, expected 17; {fix}")
    return java


def java_command(java: str, memory: str, program: str, *arguments: str) -> list[str]:
    jars = fetch_jars("kafka", FILES / "pom.xml", "kafka")
    options = [
        *(os.environ.get("KAFKA_OPTS") or QUICK).split(),
        f"-Xmx{memory}",
        "-XX:+UseSerialGC",
        f"-Dlog4j2.configurationFile={FILES / 'log4j2.properties'}",
    ]
    return [java, *options, "-cp", f"{jars}/*", program, *arguments]


def kafka_properties(state: State, folder: Path) -> str:
    sasl = state["sasl"]
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    values = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{state['controller_port']}",
        "listeners": f"PLAINTEXT://127.0.0.1:{state['port']},SASL_PLAINTEXT://127.0.0.1:{sasl['port']},"
        f"CONTROLLER://127.0.0.1:{state['controller_port']}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{state['port']},SASL_PLAINTEXT://127.0.0.1:{sasl['port']}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{module} required "
        f'user_{sasl["user"]}="{sasl["password"]}";',
        "log.dirs": folder / "data",
        "auto.create.topics.enable": "false",  # a missing topic is an error, as in production
        "num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "broker.heartbeat.interval.ms": 500,
        "broker.session.timeout.ms": 3000,  # after a kill, the next start waits for the end of the old session
        "log.retention.check.interval.ms": 1000,
        "log.initial.task.delay.ms": 500,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def up_kafka(home: Folder, state: State | None, port: int | None) -> State:
    java = find_java()
    folder = home.path / "kafka"
    if state is None:
        number = choose_port("kafka", port)
        user = {"user": "headrace", "password": secrets.token_urlsafe(12), "port": choose_port("kafka", None)}
        state = {"port": number, "controller_port": choose_port("kafka", None), "folder": str(folder), "sasl": user}
        state |= {"log": str(folder / "kafka.log"), "bootstrap_servers": f"127.0.0.1:{number}"}
        user["bootstrap_servers"] = f"127.0.0.1:{user['port']}"
    for taken in (state["port"], state["sasl"]["port"], state["controller_port"]):
        require_free("kafka", taken)
    folder.mkdir(exist_ok=True)
    settings = folder / "server.properties"
    settings.touch(mode=0o600)
    settings.write_text(kafka_properties(state, folder))
    home.put("kafka", state)
    if not (folder / "data" / "meta.properties").exists():
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # With "=", since an id may begin with "-".
        format_command = ("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", f"--config={settings}")
        run("kafka", "formatting the data folder", java_command(java, "128m", *format_command))
    command = java_command(java, "512m", "kafka.Kafka", str(settings))
    start("kafka", state, command, lambda printed: "Kafka Server started" in printed and is_open(state["port"]))
    return state
