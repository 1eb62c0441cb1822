"""CONV_3D of a .tflite on floats: the simulator beside LiteRT's reference kernels, within what sums in float32 differ by."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

from tests.plain.test_tflite_floats import ULPS, apart
from tests.tflite_files import File

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
DIMS, CHANNELS, OUTPUTS = (5, 7, 6), 3, 4


def network(
    padding: int, kernel: int = 3, stride: int = 1, dilation: int = 1, activation: int = 0, bias: bool = True
) -> bytes:
    """Returns a CONV_3D. padding: 0 SAME, 1 VALID."""
    rng, f, span = np.random.default_rng(kernel), File(), (kernel - 1) * dilation + 1
    x = f.tensor("x", [2, *DIMS, CHANNELS], "float32", None)
    dims = [kernel, kernel, kernel, CHANNELS, OUTPUTS]
    w = f.tensor("w", dims, "float32", None, value=rng.normal(size=dims))
    b = [f.tensor("b", [OUTPUTS], "float32", None, value=rng.normal(size=OUTPUTS))] if bias else []
    to = [-(-d // stride) if padding == 0 else (d - span) // stride + 1 for d in DIMS]
    y = f.tensor("y", [2, *to, OUTPUTS], "float32", None)
    how = {f"stride{a}": stride for a in "DHW"} | {f"dilation{a}Factor": dilation for a in "DHW"}
    f.operator("CONV_3D", [x, w, *b], [y], "Conv3DOptions", padding=padding, fusedActivationFunction=activation, **how)
    f.inputs, f.outputs = [x], [y]
    return f.written()


@pytest.mark.parametrize(
    "how",
    [
        {"padding": 0},
        {"padding": 1, "activation": 1},
        {"padding": 0, "stride": 2, "kernel": 2},
        {"padding": 0, "dilation": 2, "bias": False},
        {"padding": 1, "kernel": 1},
    ],
    ids=str,
)
def test_the_simulator_gives_what_litert_does(how: dict[str, int], tmp_path: Path):
    difference, largest = apart(network(**how), tmp_path)
    assert difference <= ULPS * largest


def test_the_main_job(tmp_path: Path):
    path = tmp_path / "m.tflite"
    path.write_bytes(network(0))
    assert main(["-m", str(path), "-b", "local", "-r", "True"]) == 0
    assert main(["-m", str(path), "-b", "local", "--runtime", "litert", "-r", "True"]) == 0
    assert main(["-m", str(path), "-b", "faulty:local?fault=plus_one@y", "-r", "True"]) == 1
