"""New commits go before history: the pools of the speed layer outweigh that of builds."""

from __future__ import annotations

from typing import Any

from headrace.lake import append
from headrace.maintain import partials_job, speed_layer
from headrace.spark.session import BATCH_POOL, SPEED_POOLS


def test_the_speed_layer_outweighs_builds(spark: Any) -> None:
    pools = {name: spark.sparkContext._jsc.sc().getPoolForName(name).get() for name in (*SPEED_POOLS, BATCH_POOL)}
    for name in SPEED_POOLS:
        assert pools[name].weight() > pools[BATCH_POOL].weight()
        # All cores go to it first, whatever builds have waiting.
        assert pools[name].minShare() >= 2 > pools[BATCH_POOL].minShare()


def test_jobs_run_in_the_pools_that_are_weighed() -> None:
    assert {append.POOL, speed_layer.POOL} == set(SPEED_POOLS)
    assert partials_job.POOL == BATCH_POOL
