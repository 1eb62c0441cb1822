"""Operators of a .tflite that is not converted, by the shipped arithmetic of the engine that ran them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from qverify.compare.kernel_sets import OF_ENGINES, sets_of
from qverify.errors import QVerifyError
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.units import units
from qverify.session.host_sides import HostSides
from qverify.session.models import open_models

from tests.tflite_files import File

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
ROWS, LENGTH, OUTPUTS = 2000, 16, 32
SCALES = np.float32(0.04), np.float32(0.0061), np.float32(0.31)
(NAME,) = OF_ENGINES


def network(folder: Path) -> tuple[Path, np.ndarray]:
    """Returns a file of a FULLY_CONNECTED and a FLOOR, which does not convert, and the weights."""
    rng, f = np.random.default_rng(2), File()
    weights = rng.integers(-127, 128, (OUTPUTS, LENGTH))
    x = f.tensor("x", [ROWS, LENGTH], "int8", SCALES[0], 0)
    w = f.tensor("w", [OUTPUTS, LENGTH], "int8", SCALES[1], 0, weights)
    y, real, z = (
        f.tensor(n, [ROWS, OUTPUTS], d, s, 0)
        for n, d, s in (("y", "int8", SCALES[2]), ("real", "float32", None), ("z", "float32", None))
    )
    f.operator("FULLY_CONNECTED", [x, w], [y], "FullyConnectedOptions")
    f.operator("DEQUANTIZE", [y], [real])
    f.operator("FLOOR", [real], [z])
    f.inputs, f.outputs = [x], [z]
    path = folder / "m.tflite"
    path.write_bytes(f.written())
    return path, weights


def rounded_twice(sums: np.ndarray) -> np.ndarray:
    """Returns sums times the scales as gemmlowp multiplies: 31 bits, rounded twice, by Python's integers."""
    fraction, exponent = np.frexp(float(SCALES[0]) * float(SCALES[1]) / float(SCALES[2]))
    multiplier, made = round(float(fraction) * 2**31), np.zeros(sums.shape, np.int64)
    for place, total in np.ndenumerate(sums):
        product = int(total) * multiplier
        high = (product + (1 << 30)) // (1 << 31) if product >= 0 else -((-product + (1 << 30) - 1) // (1 << 31))
        size, half = -int(exponent), 1 << (-int(exponent) - 1)
        made[place] = (abs(high) + half >> size) * (1 if high >= 0 else -1)
    return made.clip(-128, 127)


def test_a_fully_connected_is_that_of_tflm_where_litert_rounds_once(tmp_path: Path):
    path, weights = network(tmp_path)
    models = open_models([str(path)], operators=True)
    host, prepared = HostSides(models), random_inputs(models.graph)
    unit = units(models.graph)[0]
    inputs = {"x": prepared.arrays()["x"]}
    made, wanted = host.kernel_sets()[NAME](unit, inputs)["y"], rounded_twice(inputs["x"].astype(np.int64) @ weights.T)
    assert np.array_equal(made, wanted)
    assert 0 < int((host.reference().run_unit(unit, inputs)["y"] != made).sum()) < 100


def test_what_does_not_convert_has_no_such_kernels(tmp_path: Path):
    models = open_models([str(network(tmp_path)[0])], operators=True)
    run, last = HostSides(models).kernel_sets()[NAME], units(models.graph)[-1]
    with pytest.raises(QVerifyError, match="FLOOR"):
        run(last, {"real": np.zeros((ROWS, OUTPUTS), np.float32)})


def test_another_engine_does_not_have_them():
    sets = {NAME: None, "XNNPACK": None}
    assert [*sets_of(sets, "tflm")] == [NAME, "XNNPACK"] and [*sets_of(sets, "LiteRT")] == ["XNNPACK"]
