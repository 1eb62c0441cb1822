"""Fixtures of the tests that need no board."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from qverify.cli.main import main


@pytest.fixture
def captured(digits: Path, tmp_path: Path) -> Callable[..., int]:
    """Captures a run of the example into tmp_path/cap; its exit status."""

    def run(board: str = "local", *more: str) -> int:
        words = ["-m", str(digits / "digits_quant.onnx"), "-b", board, "--capture", str(tmp_path / "cap")]
        return main([*words, "-r", "--json", str(tmp_path / "r.json"), *more])

    return run
