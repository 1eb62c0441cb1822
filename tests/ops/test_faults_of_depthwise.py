"""Planted faults at a depthwise conv whose input has a scale and a zero point for each channel: each makes of every channel
what it says, with that channel's parameters."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import xxhash
from qverify.arithmetic.multipliers import parameters
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.records import encode
from qverify.ops import simulate_node
from qverify.tensors.spec import TensorSpec
from qverify_agents.binaries import host_architecture

from tests.ops.random_nodes import Array
from tests.ops.runtime_library import COMPILER, sanitized_folder

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
CHANNELS, TIMES = 5, 2  # of x; outputs of each
ZEROS = (-100, 90, 3, -20, 55)
WORDS = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, CHANNELS, -128, 127)


@dataclass
class Depthwise:
    """The node with its input; scales: of each output channel, float64."""

    graph: Graph
    x: Array
    scales: Array

    @property
    def sums(self) -> Array:
        """int64 [1, O, H, W]."""
        w, made = self.graph.constants["w"].astype(np.int64), np.zeros((1, CHANNELS * TIMES, 9, 11), np.int64)
        centred = self.x.astype(np.int64) - np.array(ZEROS).reshape(1, -1, 1, 1)
        wide = np.pad(centred, ((0, 0), (0, 0), (1, 1), (1, 1)))
        for o in range(CHANNELS * TIMES):
            for i, j in np.ndindex(3, 3):
                made[0, o] += wide[0, o // TIMES, i : i + 9, j : j + 11] * (w[o, 0, i, j] - 7)
        return made + self.graph.constants["b"].reshape(1, -1, 1, 1)

    def finished(self, v: Array) -> Array:
        return np.clip(v + 4, -128, 127).astype(np.int8)

    def run(self, graph: Graph | None = None, x: Array | None = None) -> Array:
        graph = graph or self.graph
        return simulate_node(graph, graph.nodes[0], {"x": self.x if x is None else x})["y"]


def depthwise() -> Depthwise:
    rng = np.random.default_rng(12)
    x_scales = (0.002, 0.05, 0.011, 0.3, 0.0007)
    w_scales = tuple(float(np.float32(v)) for v in rng.uniform(0.001, 0.02, CHANNELS * TIMES))
    x_scales = tuple(float(np.float32(v)) for v in x_scales)
    # the sums of every channel fill the output's range: weights of a channel with large steps are small
    sy = float(np.float32(0.05))
    w_scales = tuple(
        float(np.float32(sy * v / (40 * x_scales[o // TIMES])))
        for o, v in enumerate(rng.uniform(0.1, 0.4, len(w_scales)))
    )
    scales = np.array([x_scales[o // TIMES] * s / sy for o, s in enumerate(w_scales)])
    specs = [
        TensorSpec("x", "int8", (1, CHANNELS, 9, 11), scale=x_scales, zero_point=ZEROS, channel_axis=1),
        TensorSpec(
            "w", "int8", (CHANNELS * TIMES, 1, 3, 3), scale=w_scales, zero_point=(7,) * len(w_scales), channel_axis=0
        ),
        TensorSpec("b", "int32", (CHANNELS * TIMES,)),
        TensorSpec("rq", "float32", (CHANNELS * TIMES,)),
        TensorSpec("y", "int8", (1, CHANNELS * TIMES, 9, 11), scale=(sy,), zero_point=(4,)),
    ]
    constants = {
        "w": rng.integers(-128, 128, (CHANNELS * TIMES, 1, 3, 3)).astype(np.int8),
        "b": rng.integers(-900, 900, CHANNELS * TIMES).astype(np.int32),
        "rq": scales.astype(np.float32),
    }
    node = Node("y", "conv", ("x", "w", "b", "rq"), ("y",), WORDS)
    graph = Graph([node], {s.name: s for s in specs}, constants, ("x",), ("y",), meta={"source_sha256": "0" * 64})
    return Depthwise(graph, rng.integers(-128, 128, (1, CHANNELS, 9, 11)).astype(np.int8), scales)


def half_away(d: Depthwise) -> Array:
    v = d.sums * d.graph.constants["rq"].astype(np.float64).reshape(1, -1, 1, 1)
    return d.finished(np.trunc(v + np.copysign(0.5, v)))


def floored(d: Depthwise) -> Array:
    return d.finished(np.floor(d.sums * d.graph.constants["rq"].astype(np.float64).reshape(1, -1, 1, 1)))


def saturated(d: Depthwise) -> Array:
    """Every product of a sum is added in 16 bits that saturate."""
    w, out = d.graph.constants["w"].astype(np.int64), np.empty((1, CHANNELS * TIMES, 9, 11), np.int64)
    wide = np.pad(d.x.astype(np.int64) - np.array(ZEROS).reshape(1, -1, 1, 1), ((0, 0), (0, 0), (1, 1), (1, 1)))
    for o in range(CHANNELS * TIMES):
        acc = np.full((9, 11), d.graph.constants["b"][o], np.int64)
        for i, j in np.ndindex(3, 3):
            acc = np.clip(acc + wide[0, o // TIMES, i : i + 9, j : j + 11] * (w[o, 0, i, j] - 7), -32768, 32767)
        out[0, o] = acc
    return d.finished(np.rint(out.astype(np.float32) * d.graph.constants["rq"].reshape(1, -1, 1, 1)))


def through_reals(d: Depthwise) -> Array:
    x, w = (np.array(d.graph.spec(n).scale, np.float32) for n in ("x", "w"))
    product = (x.repeat(TIMES) * w).reshape(1, -1, 1, 1)
    return d.finished(np.rint(d.sums.astype(np.float32) * product / np.float32(d.graph.spec("y").scale[0])))


def other_mode(d: Depthwise) -> Array:
    rq = parameters("mul8", d.scales)
    specs = {**d.graph.tensors, "rq": TensorSpec("rq", "int32", rq.shape)}
    return d.run(replace(d.graph, tensors=specs, constants={**d.graph.constants, "rq": rq}, rounding="mul8"))


def in_float64(d: Depthwise) -> Array:
    specs = {**d.graph.tensors, "rq": TensorSpec("rq", "float64", d.scales.shape)}
    return d.run(replace(d.graph, tensors=specs, constants={**d.graph.constants, "rq": d.scales}))


def folded(d: Depthwise) -> Array:
    zero = np.array(ZEROS).reshape(1, -1, 1, 1)
    return d.run(x=np.minimum(zero + np.abs(d.x - zero), 127).astype(np.int8))


FAULTS: dict[str, Callable[[Depthwise], Array]] = {
    "round_half_away": half_away,
    "round_floor": floored,
    "round_through_reals": through_reals,
    "acc_sat16": saturated,
    "round_mul8": other_mode,
    "round_f64": in_float64,
    "input_sign_folded": folded,
}
CHANGES = ("round_floor", "acc_sat16", "round_mul8", "input_sign_folded")  # the others change a tie, if one occurs


@pytest.mark.parametrize("kind", FAULTS)
def test_it_uses_the_parameters_of_each_channel(kind: str, tmp_path: Path) -> None:
    d = depthwise()
    right, wanted = d.run(), FAULTS[kind](d)
    assert len(np.unique(right)) > 100, "the outputs use their range"
    if kind in CHANGES:
        assert (right != wanted).any((0, 2, 3)).sum() >= CHANNELS
    (tmp_path / "model.bin").write_bytes(encode(d.graph))
    (tmp_path / "x.bin").write_bytes(d.x.tobytes())
    program = sanitized_folder() / f"qvrt-faulty-{host_architecture()}"
    command = [str(program), "infer", "--model_file=model.bin", "--input_file=x.bin", "--digests"]
    for fault, made in (("", right), (f"{kind}@y", wanted)):
        environment = {**os.environ, "QVRT_FAULT": fault} if fault else None
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert xxhash.xxh64(made.tobytes(), seed=0).hexdigest() in done.stdout, fault or "without a fault"
