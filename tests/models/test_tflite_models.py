"""Real .tflite files by themselves: the simulator against LiteRT's reference kernels, node by node."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.units import units
from qverify.session.host_sides import HostSides
from qverify.session.models import open_models
from qverify.sides.simulator import Simulator
from qverify.tensors.prepared import PreparedInput, PreparedInputs

from tests.conftest import MODELS, need_models

pytestmark = [
    need_models(),
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed"),
]
NAMES = [
    "ad_toycar",
    "deeplabv3_dm05",
    "kws_mlperf_int8",
    "mbv1_025_128_qat",
    "mbv2_100_224_ptq",
    "resnet8_cifar10",
    "vww_96",
]
WITHIN_ONE = {"softmax"}  # LiteRT computes it in fixed point; every other op is equal


def file_of(name: str) -> str:
    return str(next((MODELS / name).glob("*.tflite")))


@pytest.mark.parametrize("name", NAMES)
def test_every_node_is_equal(name):
    models = open_models([file_of(name)])
    reference, simulator = HostSides(models).reference(), Simulator(models.graph)
    prepared = random_inputs(models.graph, 0)
    values = {**prepared.arrays(), **reference.run(prepared).tensors}
    seen: dict[str, int] = {}
    for unit in units(models.graph):
        made = simulator.run_unit(unit, {n: values[n] for n in unit.inputs})
        for output in unit.outputs:
            apart = int(np.abs(made[output].astype(np.int64) - values[output].astype(np.int64)).max())
            seen[unit.op] = max(seen.get(unit.op, 0), apart)
    assert seen and all(most == 0 for op, most in seen.items() if op not in WITHIN_ONE)
    assert max(seen.values()) <= 1


@pytest.mark.parametrize("name", ["ad_toycar", "kws_mlperf_int8", "resnet8_cifar10", "vww_96"])
def test_the_reference_is_litert_itself(name):
    """Its tensors are those of the dump that another program made, by the map of the file's indices."""
    onnx = next((MODELS / name).glob("*_tfl_*_qdq.onnx"))
    indices = {n: e["tfl"] for n, e in json.loads(Path(f"{onnx}.map.json").read_text()).items()}
    with np.load(next((MODELS / "golden").glob(f"{name}_tfl_ref.npz"))) as kept:
        golden = {indices[n]: kept[n] for n in kept.files if n != "__input_float"}
    models = open_models([file_of(name)])
    assert models.alone is not None
    by_index = {e["tfl"]: n for n, e in models.alone.converted.tensors.items()}
    (given,) = models.graph.inputs
    value = golden[models.alone.converted.model.inputs[0]].reshape(models.graph.spec(given).shape)
    prepared = PreparedInputs((PreparedInput(models.graph.spec(given), value.tobytes(), "golden"),))
    made = HostSides(models).reference().run(prepared).tensors
    names = [i for i in golden if by_index[i] != given]
    assert len(names) > 5
    for index in names:
        assert np.array_equal(made[by_index[index]].reshape(-1), golden[index].reshape(-1)), by_index[index]


@pytest.mark.parametrize("name", ["kws_mlperf_int8", "vww_96"])
@pytest.mark.parametrize("runtime", ["qvrt", "litert"])
def test_three_sides_pass(name, runtime, tmp_path):
    report = tmp_path / "report.json"
    board = "local" if runtime == "qvrt" else "local?runtime=litert&kernels=reference"
    assert main(["-m", file_of(name), "-b", board, "-r", "True", "-q", "--json", str(report)]) == 0
    pairs = json.loads(report.read_text())["pairs"]
    assert len(pairs) == 3 and all(p["verdict"] == "PASSED" and p["bit_equal"] for p in pairs)


@pytest.mark.parametrize("name", ["resnet8_cifar10", "mbv1_025_128_qat"])
def test_other_kernels_are_within_one_step_and_nobody_is_blamed(name, tmp_path):
    report = tmp_path / "report.json"
    board = "local?runtime=litert&kernels=optimized"
    status = main(["-m", file_of(name), "-b", board, "-r", "True", "-q", "--json", str(report)])
    said = json.loads(report.read_text())
    forced = [row["forced"] for p in said["pairs"] for row in p["tensors"]]
    assert said["blame"] is None and status in (0, 1)
    assert forced and all(f["verdict"] == "PASSED" and (f["max_lsb"] or 0) <= 1 for f in forced)
