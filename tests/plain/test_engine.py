"""The reference's engine keeps to itself: no report of what is verified leaves this process, and no thread spins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from qverify.onnx_model.engine import Engine

MODEL = "import sys; from qverify.onnx_model.engine import Engine; Engine(open(sys.argv[1], 'rb').read())"
PLAIN = "import sys, onnxruntime; onnxruntime.InferenceSession(sys.argv[1])"


def written(program: str, digits: Path, home: Path) -> list[str]:
    """Returns the files that a program which loads the model leaves in the user's home."""
    home.mkdir()
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")}
    words = [sys.executable, "-B", "-c", program, str(digits / "digits_quant.onnx")]
    subprocess.run(words, env={**kept, "HOME": str(home)}, check=True, timeout=60)
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())


def test_onnxruntime_collects_nothing(digits: Path, tmp_path: Path) -> None:
    """From version 1.29 on it stores an identifier and what it will report in the user's home."""
    assert written(MODEL, digits, tmp_path / "ours") == []
    if not any("onnxruntime" in name for name in written(PLAIN, digits, tmp_path / "plain")):
        pytest.skip("this onnxruntime collects nothing by itself")


def test_threads_that_wait_use_no_processor(digits: Path) -> None:
    """onnxruntime's own default is to spin, which made up half of the processor time of small models."""
    options = Engine((digits / "digits_quant.onnx").read_bytes())._session.get_session_options()
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
