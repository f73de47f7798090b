"""A stream of few events, fed commit by commit."""

from __future__ import annotations

import random

from .bench import Bench

STREAM = """CREATE STREAM events (name STRING, n BIGINT, at TIMESTAMP NOT NULL,
WATERMARK FOR at AS at - INTERVAL 1 MINUTE)"""


def feed(bench: Bench, seed: int, commits: int) -> None:
    chance = random.Random(seed)
    for _ in range(commits):
        lines = [
            b'{"name":"%c","n":%d,"at":"2026-03-01T12:%02d:%02dZ"}'
            % (chance.choice(b"abc"), chance.randrange(50), chance.randrange(10), chance.randrange(60))
            for _ in range(chance.randrange(1, 20))
        ]
        bench.post(lines, str(chance.random()), keep_bad=False)
        bench.commit()
