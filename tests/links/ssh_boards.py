"""Helpers of the tests of boards behind SSH: runs the example there, and marks the tests that need OpenSSH."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify.cli.main import main

from tests.links.servers import SSHD

OPENSSH = pytest.mark.skipif(SSHD is None, reason="no sshd on this machine")


def run(digits: Path, board: str, *words: str) -> int:
    return main(["-m", str(digits / "digits_quant.onnx"), "-b", board, "-r", *words])
