"""Measures a run of the simulator or of the reference (integer ONNX, all tensors as outputs, two threads) on one
model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.measure import median_s, peak_mb


def sides(model: str, side: str, repeat: int) -> dict[str, float]:
    """Returns the median seconds of one side's run, and the peak memory of this process, which runs only this side."""
    from qverify.compiler.compile_model import CompilerOptions, compile_model
    from qverify.inputs.random_inputs import random_inputs

    data = Path(model).read_bytes()
    compiled = compile_model(data, Path(model).name, CompilerOptions(check=False))
    prepared = random_inputs(compiled.graph, seed=0)
    if side == "simulator":
        from qverify.sides.simulator import Simulator

        runner = Simulator(compiled.graph)
        seconds = median_s(lambda: runner.run(prepared), repeat)
    else:
        from qverify.sides.reference import Reference

        reference = Reference(compiled.integer_onnx, compiled.graph, data)
        seconds = median_s(lambda: reference.run(prepared), repeat)
    return {"seconds": seconds, "peak_mb": peak_mb()}


if __name__ == "__main__":
    print(json.dumps(sides(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
