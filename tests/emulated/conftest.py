"""A Python for ARM in the user's cache, made by the project's script."""

from __future__ import annotations

import signal
import subprocess
import sys

import onnxruntime
import pytest
from qverify_agents import this_user

from tests.conftest import ROOT

FETCH_S = 120


@pytest.fixture(scope="session")
def arm() -> str:
    """The command; its folder is kept in the cache for the next run."""
    folder = this_user.cache_folder() / "arm_reference" / onnxruntime.__version__
    words = [sys.executable, str(ROOT / "scripts" / "arm_reference"), str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as making:
        try:
            command, said = making.communicate(timeout=FETCH_S)
        except subprocess.TimeoutExpired:
            making.send_signal(signal.SIGINT)  # it takes away what it has begun
            making.communicate(timeout=30)
            pytest.skip(f"an ARM Python could not be fetched within {FETCH_S} s")
    if making.returncode:
        pytest.skip(said.strip().splitlines()[-1])
    return command.strip()
