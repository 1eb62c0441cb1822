#!/usr/bin/env python3
"""Learns how esp-ppq's executor rounds for a chip, from a network of every op that an .espdl may have.

scripts/arithmetics/esp_network.py --python PYTHON [--target esp32s3] [--work DIR] [-o NAME.toml]

PYTHON has esp-ppq and torch. qverify makes the quantized ONNX of the .espdl that the toolkit writes, and `qverify identify` fits
each op to the integers of the toolkit's executor."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from float_network import FloatNetwork
from onnx import numpy_helper
from qverify.cli.main import main as qverify
from qverify.vendor_quantization import write_quantized
from qverify.vendor_quantization.espdl_parts.read_espdl import read_espdl

HERE = Path(__file__).resolve().parent
SHAPE = (3, 68, 72)
FIRST = "@channels_first"  # the ending of tensors that lie as in the float ONNX


def network(seed: int) -> onnx.ModelProto:
    """Returns a float network with several nodes of each op."""
    net = FloatNetwork(seed)
    node, conv, weight = net.node, net.conv, net.weight
    same = {"pads": [1, 1, 1, 1]}
    a = conv("a", "x", 20, 3, 3, True, **same)
    b = conv("b", a, 20, 20, 1)
    c = conv("c", a, 20, 1, 3, True, group=20, **same)
    s = node("Add", "s", b, c)
    d = node("Sub", "d", s, conv("e", a, 20, 20, 3, **same))
    m = node("Mul", "m", d, b)
    p = node("AveragePool", "p", m, kernel_shape=[2, 2], strides=[2, 2])
    q = node("AveragePool", "q", d, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1], count_include_pad=1)
    t = node("Concat", "t", node("Sigmoid", "sg", p), node("HardSwish", "hs", q), axis=1)
    leaky = node("LeakyRelu", "lr", conv("f", t, 250, 40, 1), alpha=0.1)
    u = node("Tanh", "th", conv("g", leaky, 250, 250, 1))
    v = node("Add", "v", u, leaky)
    few = node("MaxPool", "few", v, kernel_shape=[17, 18], strides=[17, 18])
    net.constants.append(numpy_helper.from_array(np.array([2, 3]), "axes"))
    mean = node("ReduceMean", "mean", few, "axes", keepdims=1)
    w = node(
        "Add", "w", node("Add", "gg", node("GlobalAveragePool", "g1", v), mean), node("GlobalAveragePool", "g2", few)
    )
    h = node("Gemm", "h", node("Flatten", "fl", w), weight("h.w", 420, 250), weight("h.b", 420), transB=1)
    i = node("Gemm", "i", node("Relu", "hr", h), weight("i.w", 420, 310), weight("i.b", 310))
    return net.model((1, *SHAPE), [i], 18)


def dims_of(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Returns the dims of each tensor of an ONNX."""
    shaped = onnx.shape_inference.infer_shapes(model).graph
    values = (*shaped.input, *shaped.output, *shaped.value_info)
    return {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}


def as_in_file(values: np.ndarray, dims: tuple[int, ...], dtype: str) -> np.ndarray:
    """Returns one frame of a tensor in the layout of the .espdl: channels last, where its dims say so."""
    turned = np.moveaxis(values, 1, -1) if values.ndim > 2 and values.shape != dims else values
    return np.ascontiguousarray(turned.reshape(dims)).astype(dtype)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--target", default="esp32s3")
    parser.add_argument("--bits", default="8")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("esp-network"))
    parser.add_argument("-o", "--output", type=Path)
    words = parser.parse_args()
    work, rng = words.work.resolve(), np.random.default_rng(words.seed + 1)
    work.mkdir(parents=True, exist_ok=True)
    (work / "float.onnx").write_bytes(network(words.seed).SerializeToString())
    np.save(work / "calibration.npy", rng.normal(0, 1, (8, *SHAPE)).astype(np.float32))
    made, tensors = work / f"{words.target}.espdl", work / f"{words.target}.npz"
    files = [work / n for n in ("float.onnx", "calibration.npy")]
    command = [words.python, HERE / "esp_runner.py", *files, words.target, words.bits, made, tensors]
    subprocess.run(command, check=True, cwd=work, stdout=subprocess.DEVNULL)
    given = {f.name: f.read_bytes() for f in (made, made.with_suffix(".json"))}
    quantized = write_quantized(b"", given)
    print(*quantized.changes, sep="\n")
    path = work / f"{words.target}.q.onnx"
    path.write_bytes(quantized.onnx)
    assert quantized.tests is not None
    np.savez(work / "in.npz", **quantized.tests[0])
    recorded, dims = dict(np.load(tensors)), dims_of(onnx.load(path))
    model = read_espdl(made.read_bytes(), made.name)
    for node in (n for n in model.nodes if n.kind == "RequantizeLinear"):
        exponent = model.tensors[node.outputs[0]].exponents[0]
        if (read := recorded.get(f"{node.inputs[0]}@{exponent}")) is not None:
            recorded[node.outputs[0]] = read
    dtype = "int8" if words.bits == "8" else "int16"
    values = {n: as_in_file(v, dims[n], dtype) for n, v in recorded.items() if n in dims}
    values |= {f"{n}{FIRST}": v.astype(dtype) for n, v in recorded.items() if f"{n}{FIRST}" in dims}
    values |= {f"{n}{FIRST}": np.moveaxis(v, -1, 1) for n, v in quantized.tests[0].items() if f"{n}{FIRST}" in dims}
    np.savez(work / "dump.npz", **values)
    print(f"{len(values)} of {len(recorded)} tensors have a name in the .espdl")
    out = ["-o", str(words.output), "--name", words.output.stem] if words.output else []
    return qverify(["identify", str(work / "dump.npz"), "-m", str(path), "-i", str(work / "in.npz"), *out])


if __name__ == "__main__":
    sys.exit(main())
