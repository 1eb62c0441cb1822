"""Small compiled units written down by hand, and the same arithmetic in plain numpy: the faults are planted there, never by our own ops."""

from __future__ import annotations

from typing import Any

import numpy as np
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.spec import TensorSpec
from qverify.triage.case import Case
from qverify.triage.forensics import FaultExplanation, explain_fault

Array = Any
SX, SY, ZX, ZY = 0.021, 0.057, -7, 5


def generator(seed: int = 3) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


class Conv:
    """x (1, 6, 9, 11) int8, w (10, 6, 3, 3) int8 per channel, stride 1, pads 1, bias, low..high; ref-exact.
    coarse: small weights of a large scale, so that rounding shows often."""

    def __init__(
        self, low: int = -128, high: int = 127, seed: int = 3, bias: int = 3000, group: int = 1, coarse: bool = False
    ):
        rng = generator(seed)
        self.group, self.low, self.high = group, low, high
        self.x = rng.integers(-128, 128, (1, 6, 9, 11)).astype(np.int8)
        self.w = rng.integers(-128, 128, (10, 6 // group, 3, 3)).astype(np.int8)
        self.b = rng.integers(-bias, bias, 10).astype(np.int32)
        self.sw = rng.uniform(0.001, 0.004, 10).astype(np.float32)
        if coarse:
            self.w, self.b, self.sw = self.w // np.int8(40), self.b // 40, self.sw * np.float32(40)
        self.rq = (np.float32(SX) * self.sw / np.float32(SY)).astype(np.float32)

    def columns(self, x: Array | None = None, zero: int = ZX, pad: int | None = None) -> Array:
        """[6 * 9, 9, 11]: what every tap reads, less the zero point; pad: the value of the padding (none: the zero point)."""
        x = self.x if x is None else x
        padded = np.pad(
            x[0].astype(np.int64) - zero, ((0, 0), (1, 1), (1, 1)), constant_values=0 if pad is None else pad - zero
        )
        taps = [padded[c, i : i + 9, j : j + 11] for c in range(6) for i in range(3) for j in range(3)]
        return np.stack(taps)

    def acc(self, w: Array | None = None, bias: Array | None = None, **how: Any) -> Array:
        w = self.w if w is None else w
        columns = self.columns(**how).reshape(self.group, -1, 99)
        weights = w.astype(np.int64).reshape(self.group, 10 // self.group, -1)
        total = np.einsum("gok,gkp->gop", weights, columns).reshape(10, 9, 11)
        return total + (self.b if bias is None else bias).astype(np.int64)[:, None, None]

    def out(self, acc: Array | None = None, rq: Array | None = None, **limits: int) -> Array:
        """Nearest, ties to even, of a float32 product."""
        product = (self.acc() if acc is None else acc).astype(np.float32) * (self.rq if rq is None else rq)[
            :, None, None
        ]
        return self.clipped(np.rint(product), **limits)

    def clipped(self, steps: Array, low: int | None = None, high: int | None = None, zero: int = ZY) -> Array:
        low, high = self.low if low is None else low, self.high if high is None else high
        return np.clip(steps + zero, low, high).astype(np.int8)[None]

    def graph(self) -> Graph:
        tensors = {
            "x": TensorSpec("x", "int8", self.x.shape, (), (SX,), (ZX,), layout="NCHW"),
            "w": TensorSpec("w", "int8", self.w.shape, (), tuple(self.sw.tolist()), (0,) * 10, 0),
            "b": TensorSpec("b", "int32", (10,)),
            "rq": TensorSpec("rq", "float32", (10,)),
            "y": TensorSpec("y", "int8", (1, 10, 9, 11), (), (SY,), (ZY,), layout="NCHW"),
        }
        words = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, self.group, self.low, self.high)
        node = Node("y", "conv", ("x", "w", "b", "rq"), ("y",), words)
        return Graph([node], tensors, {"w": self.w, "b": self.b, "rq": self.rq}, ("x",), ("y",))

    def explained(self, recorded: Array, **more: Any) -> FaultExplanation:
        graph = self.graph()
        return explain_fault(Case(graph, units(graph)[0], {"x": self.x}, "y", recorded, **more))


class Small:
    """One node of any op on given inputs; specs by name: (dtype, scale, zero point), scale 0 for what is not quantized."""

    def __init__(
        self, op: str, words: tuple[int, ...], y: tuple[str, float, int], shape: tuple[int, ...], **tensors: Any
    ):
        self.inputs = {n: v for n, (v, *_) in tensors.items() if not n.startswith("c_")}
        constants = {n: v for n, (v, *_) in tensors.items() if n.startswith("c_")}
        specs = {n: self._spec(n, str(v.dtype), v.shape, *q) for n, (v, *q) in tensors.items()}
        specs["y"] = self._spec("y", y[0], shape, *y[1:])
        node = Node("y", op, tuple(tensors), ("y",), words)
        self.graph = Graph([node], specs, constants, tuple(self.inputs), ("y",))

    @staticmethod
    def _spec(name: str, dtype: str, shape: tuple[int, ...], scale: float = 0, zero: int = 0) -> TensorSpec:
        return TensorSpec(name, dtype, shape, (), (scale,) if scale else (), (zero,) if scale else ())

    def explained(self, recorded: Array, **more: Any) -> FaultExplanation:
        return explain_fault(Case(self.graph, units(self.graph)[0], self.inputs, "y", recorded, **more))


def families(found: FaultExplanation) -> list[set[str]]:
    """Returns the families of every group of exact causes."""
    return [{cause.family for cause in group} for group in found.exact]
