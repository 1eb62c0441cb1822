"""Measures the cost of compiling, including its check: processor seconds and peak memory of `qverify compile` in a
separate process, for generated models with large constants (a chain of products) and with many nodes in several
shapes."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPES = ("conv", "add", "matmul", "wide", "softmax")
COUNTS = (3_000, 12_000, 50_000)


class Maker:
    """Collects the nodes and constants of one model, quantized to 8 bits."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        values = {"s": np.float32(0.05), "z": np.uint8(128), "ws": np.float32(0.01), "wz": np.int8(0)}
        self.constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in values.items()]
        self.random = np.random.default_rng(0)

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def read(self, name: str, output: str) -> str:
        return self.node("DequantizeLinear", [name, "s", "z"], output)

    def write(self, name: str, output: str) -> str:
        return self.node("QuantizeLinear", [name, "s", "z"], output)

    def weight(self, output: str, *dims: int) -> str:
        value = self.random.integers(-90, 90, dims).astype(np.int8)
        self.constants.append(numpy_helper.from_array(value, f"{output}_q"))
        return self.node("DequantizeLinear", [f"{output}_q", "ws", "wz"], output)


def _step(maker: Maker, shape: str, at: int, before: list[str], size: int) -> str:
    """Adds one operator with its quantization nodes and returns its quantized output. before: the quantized tensors so
    far, in order."""
    p, x = f"n{at}", before[-1]
    if shape == "conv":
        made = maker.node("Conv", [maker.read(x, f"{p}d"), maker.weight(f"{p}w", 4, 4, 3, 3)], f"{p}c", pads=[1] * 4)
        made = maker.node("Relu", [made], f"{p}r")
    elif shape == "matmul":
        made = maker.node("MatMul", [maker.read(x, f"{p}d"), maker.weight(f"{p}w", size, size)], f"{p}m")
    elif shape == "softmax":
        made = maker.node("Softmax", [maker.read(x, f"{p}d")], f"{p}m", axis=-1)
    else:
        other = before[0] if shape == "wide" else before[-min(3, len(before))]
        if shape == "wide":
            other = maker.write(maker.node("Sigmoid", [maker.read(other, f"{p}e")], f"{p}g"), f"{p}h")
        made = maker.node("Add", [maker.read(x, f"{p}a"), maker.read(other, f"{p}b")], f"{p}m")
    return maker.write(made, f"{p}q")


def model(shape: str, nodes: int, size: int = 16) -> onnx.ModelProto:
    """Returns a chain (for add a ladder, for wide branches of one tensor) of about this many nodes."""
    maker = Maker()
    tensors = [maker.write("x", "xq")]
    while len(maker.nodes) < nodes:
        tensors.append(_step(maker, shape, len(tensors), tensors, size))
    maker.read(tensors[-1], "y")
    dims = [1, 4, 6, 6] if shape == "conv" else [1, 8, size]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n in ("x", "y")]
    graph = helper.make_graph(maker.nodes, shape, ends[:1], ends[1:], maker.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _cost(path: Path, output: Path) -> dict[str, float]:
    """Returns processor seconds and the peak in MB of compiling the file."""
    words = [sys.executable, "-m", "benchmarks.compile_cost", "--one", str(path), str(output)]
    done = subprocess.run(words, cwd=Path(__file__).resolve().parents[1], check=True, capture_output=True, text=True)
    cost: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return cost


def _one(path: str, output: str) -> int:
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / room) for room in ("verifier", "agents", "")]
    from qverify.cli.main import main as qverify  # the whole command, imports and reading back included

    if status := qverify(["compile", path, "-o", output]):
        return status
    used = resource.getrusage(resource.RUSAGE_SELF)
    # ru_maxrss is not used, because a process inherits it from its parent
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak_mb = int(lines["VmHWM"].split()[0]) >> 10
    print(json.dumps({"cpu_s": round(used.ru_utime + used.ru_stime, 2), "peak_mb": peak_mb}))
    return 0


def _rows(files: list[str], counts: list[int], folder: Path) -> Iterator[dict[str, Any]]:
    for file in files:
        yield {"model": Path(file).name, "mb": Path(file).stat().st_size >> 20, **_cost(Path(file), folder / "bin")}
    for shape, nodes, size in [("matmul", 98, 1536), *((s, n, 16) for s in SHAPES for n in counts)]:
        path = folder / "model.onnx"
        path.write_bytes(model(shape, nodes, size).SerializeToString())
        mb = path.stat().st_size >> 20
        yield {"model": shape, "nodes": nodes, "mb": mb, **_cost(path, folder / "bin")}


def main(argv: list[str]) -> int:
    """Prints a line for each model; --json writes them to a file."""
    parser = argparse.ArgumentParser(prog="scripts/bench compile", description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "BIN"), help=argparse.SUPPRESS)
    parser.add_argument("--model", action="append", default=[], help="a quantized ONNX besides the generated ones")
    parser.add_argument("--nodes", type=int, action="append", help=f"nodes of the generated ones; {COUNTS}")
    parser.add_argument("--json", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(argv)
    if options.one:
        return _one(*options.one)
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for row in _rows([str(Path(m).resolve()) for m in options.model], options.nodes or [*COUNTS], Path(folder)):
            rows.append(row)
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
