"""Measures what a step of a running sequence costs: processor seconds of one more step and peak memory, of `verify` and of
onnxruntime alone on the same file, for a decoder whose caches are written in place."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.compile_cost import Maker
from benchmarks.measure import in_child, peak_mb

HEADS, SHORT = 8, 8


def decoder(path: Path, layers: int, width: int, slots: int) -> None:
    """Writes a decoder of one token at a time: caches (1, heads, slots, size) by layer, a gate of 4 * width."""
    m, size = Maker(), width // HEADS
    put = {name: _constant(m, name, np.asarray(value)) for name, value in _tables(width, slots).items()}
    x = m.read(m.write("x", "x_q"), "x_d")
    here = m.node("Equal", [put["slots"], "position"], "here")
    hide = m.node("Greater", [put["row"], "position"], "hide")
    inputs: dict[str, list[int]] = {"x": [1, 1, width]}
    outputs: dict[str, list[int]] = {"y": [1, 1, width]}
    for at in range(layers):
        caches = list[str]()
        for part in ("key", "value"):
            new = _heads(m, x, f"{part}{at}", width)
            old = m.read(m.write(f"past_key_values.{at}.{part}", f"o{part}{at}q"), f"o{part}{at}d")
            whole = m.read(m.write(m.node("Where", [here, new, old], f"w{part}{at}"), f"c{part}{at}q"), f"c{part}{at}d")
            m.node("Identity", [whole], f"present.{at}.{part}")
            caches.append(whole)
            inputs[f"past_key_values.{at}.{part}"] = outputs[f"present.{at}.{part}"] = [1, HEADS, slots, size]
        keys = m.node("Transpose", [caches[0]], f"keys{at}", perm=[0, 1, 3, 2])
        scores = m.node("MatMul", [_heads(m, x, f"query{at}", width), keys], f"scores{at}")
        kept = m.node("Where", [hide, put["low"], scores], f"kept{at}")
        shares = m.read(m.write(m.node("Softmax", [kept], f"soft{at}", axis=-1), f"soft{at}q"), f"soft{at}d")
        mixed = m.read(m.write(m.node("MatMul", [shares, caches[1]], f"mix{at}"), f"mix{at}q"), f"mix{at}d")
        flat = m.node("Reshape", [mixed, put["flat"]], f"flat{at}")
        x = _added(m, x, _product(m, flat, f"out{at}", width, width), f"a{at}")
        gate = m.node("Relu", [_product(m, x, f"up{at}", width, 4 * width)], f"gate{at}")
        x = _added(m, x, _product(m, gate, f"down{at}", 4 * width, width), f"b{at}")
    m.node("Identity", [x], "y")
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in t.items()] for t in (inputs, outputs)]
    ends[0].append(helper.make_tensor_value_info("position", TensorProto.INT64, [1]))
    graph = helper.make_graph(m.nodes, "decoder", *ends, m.constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _tables(width: int, slots: int) -> dict[str, Any]:
    places = np.arange(slots, dtype=np.int64)
    heads = {"heads": np.array([1, HEADS, 1, width // HEADS]), "flat": np.array([1, 1, width])}
    return {"slots": places.reshape(1, 1, -1, 1), "row": places.reshape(1, 1, 1, -1), "low": np.float32(-9), **heads}


def _constant(m: Maker, name: str, value: Any) -> str:
    m.constants.append(onnx.numpy_helper.from_array(value, name))
    return name


def _product(m: Maker, x: str, name: str, depth: int, rows: int) -> str:
    product = m.node("MatMul", [x, m.weight(f"{name}w", depth, rows)], f"{name}m")
    return m.read(m.write(product, f"{name}q"), f"{name}d")


def _heads(m: Maker, x: str, name: str, width: int) -> str:
    return m.node("Reshape", [_product(m, x, name, width, width), "heads"], f"{name}h")


def _added(m: Maker, x: str, y: str, name: str) -> str:
    return m.read(m.write(m.node("Add", [x, y], f"{name}m"), f"{name}q"), f"{name}d")


def measure_onnxruntime(model: str, steps: int) -> None:
    """Runs the file with onnxruntime's defaults, its outputs being the next inputs, and prints the cost."""
    import onnxruntime as ort

    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    shapes, random = {i.name: i.shape for i in session.get_inputs()}, np.random.default_rng(0)
    names = [o.name for o in session.get_outputs()]
    feed: dict[str, Any] = {n: np.zeros(s, np.float32) for n, s in shapes.items()}
    for step in range(steps):
        feed["x"], feed["position"] = random.normal(size=shapes["x"]).astype(np.float32), np.array([step])
        values = dict(zip(names, session.run(names, feed), strict=True))
        feed |= {n.replace("present", "past_key_values"): v for n, v in values.items() if n != "y"}
    _print_cost()


def measure_verify(model: str, steps: int) -> None:
    """Verifies the sequence on this host's qvrt, and prints the cost."""
    import qverify

    report = qverify.verify(model, board="local", steps=steps)
    if report.verdict != "PASSED":
        raise RuntimeError(f"{report.verdict}, wanted PASSED")
    _print_cost()


def _print_cost() -> None:
    spent = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps({"cpu_s": sum(u.ru_utime + u.ru_stime for u in spent), "peak_mb": peak_mb()}))


def main(words: list[str]) -> int:
    """Prints one row for each number of steps: processor milliseconds of a further step, peak memory, of both sides."""
    parser = argparse.ArgumentParser(prog="scripts/bench sequence", description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--slots", type=int, default=256)
    parser.add_argument("--steps", type=int, nargs="+", default=[32, 256])
    parser.add_argument("--one", nargs=3, metavar=("SIDE", "MODEL", "STEPS"), help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.one:
        side, model, steps = options.one
        {"onnxruntime": measure_onnxruntime, "verify": measure_verify}[side](model, int(steps))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "decoder.onnx"
        decoder(path, options.layers, options.width, options.slots)
        print(f"{options.layers} layers, width {options.width}, {options.slots} slots: {path.stat().st_size >> 20} MiB")
        print("| steps | side | processor ms a step | peak MB | seconds |\n|---|---|---|---|---|")
        first = {}
        for steps in (SHORT, *options.steps):
            for side in ("onnxruntime", "verify"):
                start = time.perf_counter()
                cost = in_child("benchmarks.sequence_cost", "--one", side, str(path), str(steps))
                took = time.perf_counter() - start
                before = first.setdefault(side, cost)
                each = (cost["cpu_s"] - before["cpu_s"]) / max(steps - SHORT, 1) * 1000
                print(f"| {steps} | {side} | {each:.1f} | {cost['peak_mb']:.0f} | {took:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
