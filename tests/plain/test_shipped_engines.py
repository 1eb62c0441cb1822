"""The shipped arithmetics of real engines give what these computed: answers of each engine, kept when it was learned
(scripts/arithmetics/keep_answers)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import qverify
from qverify.compare.identify.arithmetic_file import read_arithmetic
from qverify.compare.identify.fit import RecordedUnit, collect
from qverify.model_bin.kinds_of_nodes import find_of_node
from qverify.model_bin.units import units
from qverify.session.models import open_models
from qverify.sides.simulator import Simulator

SHIPPED = Path(qverify.__file__).parent / "arithmetics"
KEPT = Path(__file__).parent / "answers_of_engines"
ENGINES = sorted(p.stem for p in KEPT.glob("*.npz"))
OWN = {  # ops that the engine computes otherwise than the reference
    "htp": {"conv", "conv, depthwise, stride 2, close scales", "fully_connected", "conv_transpose", "add"},
    "openvino": {"conv", "fully_connected", "global_average_pool", "matmul"},
    "openvino-avx2": {"matmul"},
}


def read_units(engine: str, folder: Path) -> Iterator[RecordedUnit]:
    """Yields the units of the kept probes, with what the engine computed."""
    with np.load(KEPT / f"{engine}.npz") as file:
        kept = {n: file[n] for n in file.files}
    for model in [n for n in kept if n.endswith(".onnx")]:
        path, prefix = folder / model, model[:-5] + "/"
        path.write_bytes(kept[model].tobytes())
        models = open_models([str(path)])
        graph, tensors = models.graph, {n.removeprefix(prefix): v for n, v in kept.items() if n.startswith(prefix)}
        read = {**graph.constants, **tensors}
        yield from collect(units(graph), graph, read.get, Simulator(graph, models.islands).run_unit)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_shipped_arithmetic_gives_what_the_engine_computed(engine: str, tmp_path: Path) -> None:
    arithmetic = read_arithmetic(str(SHIPPED / f"{engine}.toml"))
    assert arithmetic.engine and arithmetic.learned.startswith("qverify identify -b ")
    held, apart = set[str](), set[str]()
    for unit in read_units(engine, tmp_path):
        learned = find_of_node(arithmetic.ops, unit.unit.nodes[0], unit.graph)
        if learned is None or not learned.form:
            continue
        np.testing.assert_array_equal(unit.compute(learned.form), unit.recorded, err_msg=unit.unit.name)
        held.add(learned.op)
        if not np.array_equal(unit.made, unit.recorded):
            apart.add(learned.op)
    known = {op.op for op in arithmetic.ops.values() if op.form} - {"quantize"}  # test_quantization_of_htp.py
    assert held == known
    assert OWN.get(engine, set()) <= apart


def test_every_engine_has_answers() -> None:
    assert {"htp", "openvino", "openvino-avx2", "onnxruntime"} <= {*ENGINES}
