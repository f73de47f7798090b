"""A local Spark session for a workspace without a running server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def local_session(workspace: Workspace, *, keep_log: bool = True) -> Iterator[SparkSession]:
    """A Spark session with the settings of the workspace; stopped at the end of the block.

    Without `keep_log` nothing is written to the workspace.
    """
    from headrace.spark.build import build_session  # loads PySpark, which most commands do not need

    scratch = Path(tempfile.mkdtemp(prefix="headrace-events-"))
    settings = workspace.settings
    try:
        spark = build_session(
            scratch,
            master=settings.spark_master,
            driver_memory=settings.spark_memory,
            java_options=settings.spark_java_options,
            log=workspace.logs / "spark-events.log" if keep_log else None,
        )
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
