"""Fixtures of the tests that need no board."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

from tests.plain.triaged_models import float_model, frames, quantized


@pytest.fixture
def captured(digits: Path, tmp_path: Path) -> Callable[..., int]:
    """Captures a run of the example into tmp_path/cap; its exit status."""

    def run(board: str = "local", *more: str) -> int:
        words = ["-m", str(digits / "digits_quant.onnx"), "-b", board, "--capture", str(tmp_path / "cap")]
        return main([*words, "-r", "--json", str(tmp_path / "r.json"), *more])

    return run


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """float.onnx, quant.onnx, bad.onnx (one saturated scale), x.npy, frames/."""
    folder = tmp_path_factory.mktemp("triage")
    float_model(folder / "float.onnx")
    quantized(folder / "float.onnx", folder / "quant.onnx")
    quantized(folder / "float.onnx", folder / "bad.onnx", 1 / 64)
    (folder / "frames").mkdir()
    for at, frame in enumerate(frames(3)):
        np.save(folder / "frames" / f"{at}.npy", frame)
    np.save(folder / "x.npy", frames(1)[0])
    return folder
