"""A Spark with an executor in a mount namespace of its own, and jobs of the product on it.

`python -m tests.faults.separate_executor FOLDER` asserts all by itself. The executor is a real one, of Spark's
local cluster; it sees the lakes and journals below the folder, but in place of all else there an empty file system.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from headrace.errors import LostFileError
from headrace.server.reconcile import point_of
from headrace.spark.build import build_session
from headrace.spark.process import SparkProcess
from headrace.spark.session import executors, java_command
from headrace.spark.written import write_files
from tests.equivalence.joined import Joined
from tests.waiting import wait_until

SQL = """
CREATE STREAM clicks (user_id STRING, n INT, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts);
CREATE TABLE users (id STRING PRIMARY KEY, plan STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW plans AS SELECT u.plan, count(*) AS hits FROM clicks c LEFT JOIN users u ON c.user_id = u.id
  GROUP BY u.plan;
CREATE MATERIALIZED VIEW numbers AS SELECT n, count(*) AS hits FROM clicks GROUP BY n;
"""
JAVA = """#!/bin/sh
while [ -e {gate}/closed ]; do sleep 0.1; done
echo $$ > {gate}/pid
[ -e {gate}/hidden ] || exec {java} "$@"
exec unshare -m sh -ec '
  mount --make-rprivate /
  mkdir -p {gate}/lake {gate}/journal
  for name in lake journal; do mount --bind {shop}/$name {gate}/$name; done
  mount -t tmpfs none {shop}
  for name in lake journal; do mkdir {shop}/$name; mount --bind {gate}/$name {shop}/$name; done
  exec {java} "$@"' java "$@"
"""
NEVER = (1e6, 1e6)
START_S = 600  # of two Java processes, one after the other, on a busy machine
AT = "2026-03-01T12:00:00Z"


class Executor:
    """The one executor, which starts when the gate is open."""

    def __init__(self, folder: Path) -> None:
        self.shop, self.gate = folder / "shop", folder / "gate"
        for name in ("shop/lake", "shop/journal", "gate", "java/bin", "spark"):
            (folder / name).mkdir(parents=True)
        (self.gate / "hidden").touch()
        java = folder / "java" / "bin" / "java"
        java.write_text(JAVA.format(gate=self.gate, shop=self.shop, java=java_command()))
        java.chmod(0o755)
        for path in Path(pyspark.__file__).parent.iterdir():  # the folder `work` of its workers comes beside them
            (folder / "spark" / path.name).symlink_to(path)
        os.environ |= {"SPARK_HOME": str(folder / "spark"), "SPARK_LOCAL_IP": "127.0.0.1"}
        self.settings = {
            "spark.executor.memory": "512m",
            "spark.executorEnv.JAVA_HOME": str(folder / "java"),
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
        }

    def kill(self) -> None:
        file = self.gate / "pid"
        pid = int(file.read_text())
        file.unlink()
        os.kill(pid, signal.SIGKILL)


def refuse_lost_files(shop: Joined, executor: Executor) -> None:
    """Nothing is applied of a job whose files are not seen here: of a step, of a build, of a snapshot for joins."""
    folder = executor.shop / "files"
    with pytest.raises(LostFileError, match=r"reads other content; found no such file"):
        write_files(shop.spark.range(1000), folder)
    assert not list(folder.iterdir())
    clicks = shop.parts["clicks"]
    for name in ("plans", "numbers"):
        view = shop.catalog.views[name]
        shop.store.register(view, name, shop.catalog.patience_ms(view))
    with pytest.raises(LostFileError):
        clicks.speed.run_once()
    with shop.store.snapshot() as snapshot:
        assert {(v.base("clicks").applied_to, v.base("clicks").stalled) for v in snapshot.versions()} == {(0, None)}
    with pytest.raises(LostFileError):
        shop.prepare("plans")
    built = shop.catalog.views["numbers"]
    version = shop.store.register(
        built, "another", shop.catalog.patience_ms(built), {"clicks": point_of(clicks.table.state)}
    )
    assert not clicks.batch.run_once() or version.id in clicks.batch.errors
    assert "reads other content" in clicks.batch.errors[version.id]


def apply_after_all(shop: Joined) -> None:
    """The same jobs, once the folder is shared."""
    shop.maintain()
    shop.prepare("plans")
    shop.build()
    assert {row["plan"]: row["hits"] for row in shop.ask("plans")} == {"free": 60, "paid": 40}
    assert {row["n"]: row["hits"] for row in shop.ask("numbers")} == dict.fromkeys(range(10), 10)
    with shop.store.snapshot() as snapshot:
        assert all(v.base("clicks").applied_to == 1 for v in snapshot.versions() if v.live)


def main() -> None:
    executor = Executor(Path(sys.argv[1]))
    stopped, troubles = threading.Event(), []

    def build(start: int) -> object:
        scratch = executor.gate.parent / f"scratch-{start}"
        return build_session(scratch, master="local-cluster[1,1,512]", driver_memory="512m", more=executor.settings)

    spark = SparkProcess(build, lambda session: None, stopped)  # type: ignore[arg-type]

    def seen(trouble: str) -> Callable[[], bool]:
        def look() -> bool:
            troubles.append(spark.trouble or "")
            return any(trouble in each for each in troubles)

        return look

    def has_executor() -> bool:
        return spark.current is not None and executors(spark.session()) == 1

    thread = threading.Thread(target=spark.run)
    thread.start()
    try:
        spark.without_executors_s = NEVER
        wait_until(has_executor, START_S)
        shop = Joined(spark.session(), executor.shop, SQL, fused=False)
        shop.parts["users"].send({"id": "a", "plan": "free", "at": AT}, {"id": "b", "plan": "paid", "at": AT})
        shop.parts["clicks"].send(*({"user_id": "ab"[n % 5 > 2], "n": n % 10, "ts": AT} for n in range(100)))
        refuse_lost_files(shop, executor)
        shop.close()

        (executor.gate / "hidden").unlink()
        (executor.gate / "closed").touch()
        executor.kill()
        spark.without_executors_s = (0.5, NEVER[1])
        wait_until(seen("Spark has had no executors for"))
        spark.without_executors_s = (0.5, 0.5)
        wait_until(seen("Spark is restarting: it had no executors for"))
        spark.without_executors_s = NEVER
        (executor.gate / "closed").unlink()
        wait_until(has_executor, START_S)
        shop = Joined(spark.session(), executor.shop, SQL, fused=False)
        apply_after_all(shop)
        shop.close()

        starts = spark.starts
        spark.session().sparkContext._jsc.sc().stop()  # its Java runs on
        wait_until(seen("Spark is restarting: its context was stopped"))
        wait_until(lambda: spark.starts > starts and has_executor() and spark.trouble is None, START_S)
    finally:
        stopped.set()
        spark.stop()
        thread.join()


if __name__ == "__main__":
    main()
