"""An executor that does not share the driver's folder, one that is lost, a context that stops: nothing is silent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CAN_MOUNT = os.geteuid() == 0 and shutil.which("unshare") is not None


@pytest.mark.timeout(3600)  # some two minutes, several times as long on a busy machine
@pytest.mark.skipif(not CAN_MOUNT, reason="only root can give an executor a mount namespace of its own (unshare -m)")
def test_files_that_the_driver_does_not_see_and_executors_that_are_lost_are_reported(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no mount namespaces (unshare -m)")
    command = [sys.executable, "-m", "tests.faults.separate_executor", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-5000:]
