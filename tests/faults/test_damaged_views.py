"""Store, batch tables and slices of builds, lost or damaged, one at a time: after a restart no answer is wrong.

`make test` tries one harm for each kind of file, `make test-faults` others with each seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ..warm import Java
from .scene import Scene
from .seeds import SEEDS
from .tally import Tally

KINDS = {
    "store": "store/views-*.duckdb",
    "batch table": "batch/*.duckdb",
    "slice": "builds/*/*-*/*",
}


def lose(path: Path, chance: random.Random) -> None:
    path.unlink()


def cut(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size))


def garble(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(path.stat().st_size))


def flip(path: Path, chance: random.Random) -> None:
    raw = bytearray(path.read_bytes())
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)


HARMS = (lose, cut, garble, flip)


def harm(kind: str, chance: random.Random) -> Callable[[Path], Path]:
    """Does one harm to one file of a kind."""

    def do(data: Path) -> Path:
        files = sorted(path for path in data.glob(KINDS[kind]) if path.is_file() and path.stat().st_size)
        assert files, kind
        path = chance.choice(files)
        chance.choice(HARMS)(path, chance)
        return path

    return do


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_whose_files_were_harmed(java: Java, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    scene = Scene(java, tmp_path, seed, Tally())
    kinds = list(KINDS)
    chance.shuffle(kinds)
    for kind in kinds:
        if kind == "slice":
            scene.die_at("build.after_slice")
        else:
            scene.build()
        scene.survive(harm(kind, chance))
    scene.end()
