"""compose.yaml and the Dockerfile have the right form; no Docker is needed to know that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.workspace.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PINNED = re.compile(r"[a-z/]+:\d+(\.\d+)+(-[a-z]+)*")  # a whole version, from the default registry


def test_all_three_services_are_there() -> None:
    assert set(SERVICES) == {"headrace", "kafka", "postgres"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_complete(name: str) -> None:
    service = SERVICES[name]
    assert PINNED.fullmatch(service["image"]), service["image"]
    assert {"environment", "ports", "volumes", "healthcheck", "restart"} <= set(service)
    assert service["healthcheck"]["test"][0] == "CMD"
    for volume in service["volumes"]:
        source = volume.rpartition(":")[0]
        assert source.startswith("${") or source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_open_on_this_machine_only(name: str) -> None:
    for port in SERVICES[name]["ports"]:
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


def test_secrets_come_from_the_environment() -> None:
    for service in SERVICES.values():
        for variable, value in service["environment"].items():
            if re.search("TOKEN|PASSWORD", variable):
                assert value.startswith(f"${{{variable}:?"), f"{variable} has a value in the file, or may be empty"


def test_headrace_starts_after_the_others() -> None:
    for name in ("kafka", "postgres"):
        assert SERVICES["headrace"]["depends_on"][name] == {"condition": "service_healthy"}


def test_headrace_listens_where_the_port_leads() -> None:
    (port,) = SERVICES["headrace"]["ports"]
    assert port.endswith(f":{Settings().port}:{Settings().port}")
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert f"EXPOSE {Settings().port}\n" in dockerfile
    assert f'"--port", "{Settings().port}"' in dockerfile


def test_the_broker_has_a_listener_inside_and_outside() -> None:
    environment = SERVICES["kafka"]["environment"]
    advertised = dict(text.split("://") for text in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
    listeners = dict(text.split("://") for text in environment["KAFKA_LISTENERS"].split(","))
    assert advertised["INSIDE"] == "kafka:9092"
    assert SERVICES["kafka"]["ports"] == [f"127.0.0.1:{advertised['OUTSIDE'].split(':')[1]}:29092"]
    assert {name: address.split(":")[1] for name, address in advertised.items()}.items() <= {
        name: address.split(":")[1] for name, address in listeners.items()
    }.items()


def test_the_broker_is_the_one_of_the_tests() -> None:
    pom = (ROOT / "scripts" / "kafka" / "pom.xml").read_text()
    assert f"<version>{SERVICES['kafka']['image'].split(':')[1]}</version>" in pom


def test_the_image_has_our_version() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{SERVICES["headrace"]["image"].split(":")[1]}"' in project


def test_the_dockerfile_copies_what_is_there() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    (image,) = re.findall(r"^FROM (\S+)$", dockerfile, re.MULTILINE)
    assert PINNED.fullmatch(image)
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [source for line in re.findall(r"^COPY (.+)$", dockerfile, re.MULTILINE) for source in line.split()[:-1]]
    assert set(copied) == kept
    assert all((ROOT / source).exists() for source in copied)
