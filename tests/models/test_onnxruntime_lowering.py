"""The oracle: wherever onnxruntime's own lowering fuses a unit, our integer form gives the same bits on its inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.units import units
from qverify.onnx_model.open_exposed import open_exposed
from qverify.sides.simulator import Simulator

from tests.conftest import need_models, real_models
from tests.lowered import lowered_by_onnxruntime

pytestmark = need_models()
FUSED = ("QLinear", "QGemm")


@pytest.mark.parametrize("path", real_models(), ids=lambda p: p.stem)
def test_every_fused_unit_has_our_bits(path: Path, tmp_path: Path):
    source = path.read_bytes()
    graph = compile_model(source, path.name, CompilerOptions(check=False)).graph
    lowered = lowered_by_onnxruntime(source, tmp_path)
    fused = {o for n in lowered.graph.node if n.op_type.startswith(FUSED) for o in n.output}
    assert fused
    names = [o for n in lowered.graph.node for o in n.output if o in graph.tensors]
    prepared = random_inputs(graph, 1)
    recorded = {**open_exposed(lowered, names).run(prepared.arrays(), names), **prepared.arrays()}
    simulator, compared = Simulator(graph), set()
    for unit in units(graph):
        wanted = fused.intersection(unit.outputs)
        if wanted and all(n in recorded for n in unit.inputs):
            result = simulator.run_unit(unit, {n: recorded[n] for n in unit.inputs})
            for name in wanted:
                assert np.array_equal(result[name], recorded[name]), (unit.name, unit.nodes[0].op)
                compared.add(name)
    assert len(fused - compared) <= 1, fused - compared  # one concat reads tensors that onnxruntime does not make
