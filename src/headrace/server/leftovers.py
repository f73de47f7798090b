"""What a process finds in a workspace: which fences were used, and what one that died left."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from deltalake import DeltaTable

from headrace.lake.delta_table import FENCE_ID
from headrace.maintain.build_slices import remove_unneeded
from headrace.store import open_store
from headrace.store.store_contract import Store


def highest_fence(data: Path) -> int:
    """The highest fence that anything in the data folder was written under; 0 if there is nothing."""
    segments = [*data.glob("journal/*/*-*.seg"), *data.glob("kafka/*/requests/*-*.seg")]
    fences = [int(path.stem.rpartition("-")[2]) for path in segments if path.stem[-8:].isdigit()]
    fences.append(open_store.highest_fence(data))
    for lake in data.glob("lake/*"):
        with suppress(Exception):  # a log that cannot be read is named by whoever needs it
            fences.append(DeltaTable(lake).transaction_version(FENCE_ID) or 0)
    return max(fences, default=0)


def clean(store: Store, builds: Path) -> None:
    """Remove what a process that died left: batch tables that no version has, slices that none is made of."""
    store.clean()
    remove_unneeded(builds, store.versions())
