#!/usr/bin/env python3
"""Compares qverify's simulator with tpu-mlir's interpreter on a network of every op that the arithmetics of Sophgo state.

scripts/arithmetics/sophgo_network.py --python PYTHON [--chip CHIP] [--work DIR] [--onnx FLOAT --inputs X.npz]

PYTHON is a CPython 3.10 that has tpu-mlir. The float network is built by the driver of the engine `sophgo`; of the text that
the toolkit writes, qverify makes the quantized ONNX, and simulates it free-running under the shipped arithmetic. Of each
op, the number of nodes and of elements with the toolkit's integers is printed. With --onnx it is that network."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from float_network import FloatNetwork
from qverify.cli.main import main as qverify
from qverify.model_bin.records import decode
from qverify.vendor_quantization.sophgo import write_quantized

INPUT = (1, 3, 24, 24)
DRIVERS = Path(__file__).resolve().parents[2] / "agents" / "qverify_drivers"


def network(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Returns a float network with two to four nodes of each op, and an input."""
    net = FloatNetwork(seed)
    node, conv, weight = net.node, net.conv, net.weight
    outputs: list[str] = []
    a = conv("a", "x", 16, 3, 3, True, pads=[1, 1, 1, 1])
    b = conv("b", a, 16, 16, 1)
    c = conv("c", b, 16, 1, 3, group=16, pads=[1, 1, 1, 1])
    s = node("Add", "s", b, c)
    d = node("Sub", "d", s, conv("e", a, 16, 16, 3, pads=[1, 1, 1, 1]))
    m = node("Mul", "m", d, c)
    p = node("AveragePool", "p", m, kernel_shape=[2, 2], strides=[2, 2])
    q = node("AveragePool", "q", d, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
    u = node("Add", "u", p, q)
    t = node("ConvTranspose", "t", u, weight("t.w", 16, 8, 2, 2), weight("t.b", 8), kernel_shape=[2, 2], strides=[2, 2])
    outputs.append(node("Mul", "v", t, conv("f", t, 8, 8, 1)))
    g = node("Flatten", "g2", node("GlobalAveragePool", "g", u))
    h = node("Gemm", "h", g, weight("h.w", 24, 16), weight("h.b", 24), transB=1)
    outputs.append(node("Gemm", "i", node("Relu", "hr", h), weight("i.w", 24, 12), weight("i.b", 12)))
    outputs.append(node("ReduceMean", "r", m, axes=[2, 3], keepdims=1))
    return net.model(INPUT, outputs, 17), {"x": net.rng.normal(0, 1, INPUT).astype(np.float32)}


def build(model: Path, inputs: dict[str, np.ndarray], python: str, chip: str, work: Path, extra: list[str]) -> Path:
    """Runs the driver, and returns the folder with its tensors. The build is in work/cache."""
    out = work / f"out-{chip}"
    out.mkdir(exist_ok=True)
    rows = []
    for k, (name, value) in enumerate(inputs.items()):
        np.save(work / f"in{k}.npy", value)
        rows.append({"name": name, "npy": str(work / f"in{k}.npy")})
    graph = onnx.load(model).graph
    options = {
        "chip": [chip],
        "cache": [str(work / "cache" / chip)],
        **{k: [v] for k, v in (e.split("=", 1) for e in extra)},
    }
    request = {
        "model": str(model),
        "inputs": rows,
        "outputs": [o.name for o in graph.output],
        "taps": ["all"],
        "out": str(out),
        "options": options,
        "files": {},
    }
    (work / "request.json").write_text(json.dumps(request))
    subprocess.run([python, str(DRIVERS / "drive.py"), "sophgo", str(work / "request.json")], check=True, cwd=work)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--chip", default="bm1684x")
    parser.add_argument("--work", type=Path, default=Path("sophgo-network"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--onnx", type=Path)
    parser.add_argument("--inputs", type=Path)
    parser.add_argument("--option", action="append", default=[], help="KEY=VALUE of the engine")
    words = parser.parse_args()
    work = words.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    model, inputs = network(words.seed) if words.onnx is None else (onnx.load(words.onnx), dict(np.load(words.inputs)))
    (work / "float.onnx").write_bytes(model.SerializeToString())
    out = build(work / "float.onnx", inputs, words.python, words.chip, work, words.option)
    made = sorted((work / "cache" / words.chip).glob("*"), key=lambda p: p.stat().st_mtime)[-1]
    files = [*made.glob("*_tpu.mlir"), *made.glob("*_tpu_weights.npz")]
    quantized = write_quantized((work / "float.onnx").read_bytes(), {f.name: f.read_bytes() for f in files})
    print(*quantized.changes, sep="\n")
    paths = work / f"q-{words.chip}.onnx", work / f"q-{words.chip}.bin", work / f"own-{words.chip}"
    paths[0].write_bytes(quantized.onnx)
    np.savez(work / "in.npz", **inputs)
    assert qverify(["compile", str(paths[0]), "-o", str(paths[1]), "--arithmetic", quantized.arithmetic]) == 0
    given = ["-i", str(work / "in.npz"), "-o", str(paths[2]), "--dequantize"]
    assert qverify(["infer", "-m", str(paths[1]), *given]) == 0
    own = {t: paths[2] / f for f, t in json.loads((paths[2] / "manifest.json").read_text())["tensors"].items()}
    return report(np.load(out / "tensors.npz"), quantized.names, own, decode(paths[1].read_bytes()))


def report(real: np.lib.npyio.NpzFile, names: dict[str, str], own: dict[str, Path], graph: object) -> int:
    """Prints, by op, how many nodes and elements have the toolkit's integers. Returns 1 if an element has not."""
    makers = {o: n for n in graph.nodes for o in n.outputs}  # type: ignore[attr-defined]
    nodes, elements, apart = Counter[str](), Counter[str](), Counter[str]()
    for name, tensor in {names[n]: n for n in reversed(real.files) if n in names}.items():
        if name not in own or name not in makers:
            continue
        op, mine, theirs = makers[name].op, np.load(own[name]).ravel(), real[tensor].ravel()
        differing = int(np.count_nonzero(mine != theirs.astype(mine.dtype)))
        nodes[op] += 1
        elements[op] += mine.size
        apart[op] += differing
        if differing:
            print(f"  {op} {name}: {differing} of {mine.size} elements, up to {np.abs(mine - theirs).max():g}")
    for op in nodes:
        print(f"{op}: {nodes[op]} nodes, {elements[op]} elements, {apart[op]} apart")
    left = [n for n in real.files if n not in names]
    print(f"tensors without a name in the ONNX: {', '.join(left) or 'none'}")
    return 1 if apart.total() else 0


if __name__ == "__main__":
    sys.exit(main())
