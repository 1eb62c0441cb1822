"""Laws L1 and L3 on random nodes: simulator == fast kernels == plain kernels, bit for bit, in every rounding mode."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import xxhash
from qverify.arithmetic.multipliers import add_parameters, parameters
from qverify.model_bin.graph import ROUNDINGS, Graph, Node
from qverify.model_bin.records import encode
from qverify.ops import simulate_node
from qverify.tensors.spec import TensorSpec

from tests.ops.runtime_library import COMPILER, binary

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
RANGE = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}


def word(value: float) -> int:
    return int(np.array(value, np.float32).view(np.int32))


class Cases:
    """One graph of unconnected random nodes."""

    def __init__(self, rounding: str, seed: int):
        self.rng = np.random.default_rng(seed)
        self.rounding = rounding
        self.nodes: list[Node] = []
        self.specs: dict[str, TensorSpec] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.values: dict[str, np.ndarray] = {}

    def pick(self, *of: int) -> int:
        return int(self.rng.choice(of))

    def tensor(self, name: str, dtype: str, shape: tuple[int, ...], channels: int = 1, axis: int = -1) -> TensorSpec:
        low, high = RANGE[dtype]
        zero = tuple(
            int(z) for z in self.rng.choice([low, high, (low + high) // 2 + 1, low + (high - low) // 3], channels)
        )
        scale = tuple(float(np.float32(s)) for s in self.rng.uniform(0.001, 0.02, channels))
        self.specs[name] = TensorSpec(name, dtype, shape, scale=scale, zero_point=zero, channel_axis=axis)
        return self.specs[name]

    def given(self, name: str, dtype: str, shape: tuple[int, ...]) -> TensorSpec:
        """A graph input with random values and runs of both ends."""
        spec = self.tensor(name, dtype, shape)
        low, high = RANGE[dtype]
        values = self.rng.integers(low, high + 1, shape)
        ends = self.rng.random(shape)
        values = np.where(ends < 0.1, low, np.where(ends > 0.9, high, values))
        self.values[name] = values.astype(dtype)
        return spec

    def constant(self, name: str, value: np.ndarray, spec: TensorSpec | None = None) -> str:
        self.constants[name] = np.ascontiguousarray(value)
        self.specs[name] = spec or TensorSpec(name, value.dtype.name, value.shape)
        return name

    def rq(self, name: str, depth: int, channels: int, wide: bool, single: bool = True) -> str:
        """Scales that send typical sums of `depth` products across the whole range, some exact powers of two."""
        size = (32767.0 * 16384 / 300 if wide else 128.0) * max(depth, 1) ** 0.5
        scale = self.rng.uniform(0.3, 2, channels) / size
        scale = np.where(self.rng.random(channels) < 0.3, 2.0 ** np.round(np.log2(scale)), scale)
        if self.rounding != "ref-exact":
            return self.constant(name, parameters(self.rounding, scale, wide))
        return self.constant(name, scale.astype(np.float64 if wide or not single else np.float32))

    def limits(self, dtype: str) -> tuple[int, int]:
        low, high = RANGE[dtype]
        return (low, high) if self.rng.random() < 0.6 else (low + 11, high - 5)

    def add_conv(self, i: int, transposed: bool = False, wide: bool = False) -> None:
        rng, p = self.rng, f"{'t' if transposed else 'c'}{'w' if wide else ''}{i}"
        kind = self.pick(0, 1, 2, 3)  # plain, pointwise, depthwise, grouped
        group = (1, 1, self.pick(5, 17), 2)[kind]
        per_in, per_out = (self.pick(1, 3, 8), 1 if kind == 2 else self.pick(1, 5, 7))
        per_in = 1 if kind == 2 else per_in
        kh, kw = (1, 1) if kind == 1 else (self.pick(1, 2, 3), self.pick(1, 3, 5)) if rng.random() < 0.5 else (3, 3)
        sh, sw, dh, dw = self.pick(1, 2, 3), self.pick(1, 2, 3), self.pick(1, 1, 2), self.pick(1, 1, 3)
        dw = 1 if kw == 5 else dw  # the window fits the smallest input
        pads = [self.pick(0, 1, 2) for _ in range(4)]
        if kind == 1 and rng.random() < 0.6:
            sh, sw, pads = 1, 1, [0] * 4
        h, w = self.pick(7, 11, 13), self.pick(7, 9, 19)
        x_type = ("uint8", "int8")[self.pick(0, 1)] if not wide else ("uint16", "int16")[self.pick(0, 1)]
        oc = group * per_out
        self.given(f"{p}x", x_type, (2, group * per_in, h, w))
        w_type = ("uint8", "int8")[self.pick(0, 1)]
        w_shape = (group * per_in, per_out, kh, kw) if transposed else (oc, per_in, kh, kw)
        per_channel = not transposed and bool(self.pick(0, 1))
        spec = self.tensor(
            f"{p}w", w_type, w_shape, oc if per_channel and oc > 1 else 1, 0 if per_channel and oc > 1 else -1
        )
        low, high = RANGE[w_type]
        self.constant(f"{p}w", rng.integers(low, high + 1, w_shape).astype(w_type), spec)
        bias = None
        if rng.random() < 0.7:
            bias = self.constant(f"{p}b", rng.integers(-9000, 9000, oc).astype(np.int64 if wide else np.int32))
        reach_h, reach_w = (kh - 1) * dh + 1, (kw - 1) * dw + 1
        if transposed:
            shape = (2, oc, (h - 1) * sh + reach_h - pads[0] - pads[2], (w - 1) * sw + reach_w - pads[1] - pads[3])
        else:
            shape = (2, oc, (h + pads[0] + pads[2] - reach_h) // sh + 1, (w + pads[1] + pads[3] - reach_w) // sw + 1)
        y_type = x_type if wide else ("uint8", "int8")[self.pick(0, 1)]
        self.tensor(f"{p}y", y_type, shape)
        rq = self.rq(f"{p}rq", per_in * kh * kw, oc if per_channel else 1, wide, not transposed)
        words = (kh, kw, sh, sw, *pads, dh, dw, group, *self.limits(y_type))
        self.nodes.append(
            Node(f"{p}y", "conv_transpose" if transposed else "conv", (f"{p}x", f"{p}w", bias, rq), (f"{p}y",), words)
        )

    def add_products(self, i: int) -> None:
        rows, depth, columns = self.pick(1, 3, 9), self.pick(1, 7, 64, 129), self.pick(1, 5, 67, 130)
        kinds = ("uint8", "int8")
        a, b = kinds[self.pick(0, 1)], kinds[self.pick(0, 1)]
        self.given(f"m{i}a", a, (2, 1, rows, depth))
        self.given(f"m{i}b", b, (3, depth, columns))
        self.tensor(f"m{i}y", a, (2, 3, rows, columns))
        inputs = (f"m{i}a", f"m{i}b", self.rq(f"m{i}rq", depth, self.pick(1, columns), False))
        self.nodes.append(Node(f"m{i}y", "matmul", inputs, (f"m{i}y",), self.limits(a)))
        self.given(f"f{i}x", a, (rows, depth))
        spec = self.tensor(f"f{i}w", b, (columns, depth), columns, 0 if columns > 1 else -1)
        low, high = RANGE[b]
        self.constant(f"f{i}w", self.rng.integers(low, high + 1, (columns, depth)).astype(b), spec)
        bias = self.constant(f"f{i}b", self.rng.integers(-9000, 9000, columns).astype(np.int32))
        self.tensor(f"f{i}y", b, (rows, columns))
        self.nodes.append(
            Node(
                f"f{i}y",
                "fully_connected",
                (f"f{i}x", f"f{i}w", bias, self.rq(f"f{i}rq", depth, columns, False)),
                (f"f{i}y",),
                self.limits(b),
            )
        )

    def add_elementwise(self, i: int) -> None:
        kinds = ("uint8", "int8")
        a, b, y = (kinds[self.pick(0, 1)] for _ in range(3))
        shapes = [((2, 5, 7), (2, 5, 7)), ((2, 5, 7), (5, 1)), ((1,), (3, 11)), ((4, 1, 3), (1, 6, 3))][
            self.pick(0, 1, 2, 3)
        ]
        out = tuple(int(d) for d in np.broadcast_shapes(*shapes))
        sa, sb = self.given(f"e{i}a", a, shapes[0]), self.given(f"e{i}b", b, shapes[1])
        swap = self.pick(0, 1)
        sy = self.tensor(f"e{i}y", y, out)
        sz = self.tensor(f"e{i}z", y, out)
        ra, rb = sa.scale[0] / sy.scale[0], sb.scale[0] / sy.scale[0]
        if self.rounding == "ref-exact":
            first, second = (rb, ra) if swap else (ra, rb)
            rq = np.array([first, second, sy.zero_point[0] - first * 99 - second * 55], np.float32)
        else:
            rq = add_parameters(self.rounding, ra, rb)
        self.nodes.append(
            Node(
                f"e{i}y", "add", (f"e{i}a", f"e{i}b", self.constant(f"e{i}q", rq)), (f"e{i}y",), (swap, *self.limits(y))
            )
        )
        self.nodes.append(
            Node(
                f"e{i}z",
                "mul",
                (f"e{i}a", f"e{i}b", self.rq(f"e{i}r", 1, 1, False)),
                (f"e{i}z",),
                self.limits(sz.dtype),
            )
        )

    def add_pools(self, i: int) -> None:
        kind = ("uint8", "int8")[self.pick(0, 1)]
        x = self.given(f"p{i}x", kind, (2, 3, 11, 13))
        kh, kw, stride, pad = self.pick(2, 3), self.pick(2, 3), self.pick(1, 2), self.pick(0, 1)
        shape = (2, 3, (11 + 2 * pad - kh) // stride + 1, (13 + 2 * pad - kw) // stride + 1)
        window = (kh, kw, stride, stride, pad, pad, pad, pad)
        self.specs[f"p{i}m"] = TensorSpec(f"p{i}m", kind, shape, scale=x.scale, zero_point=x.zero_point)
        self.nodes.append(Node(f"p{i}m", "max_pool", (f"p{i}x",), (f"p{i}m",), (*window, 1, 1)))
        y, g, r = (
            self.tensor(f"p{i}a", kind, shape),
            self.tensor(f"p{i}g", kind, (2, 3, 1, 1)),
            self.tensor(f"p{i}r", kind, (2, 13)),
        )
        ratio = x.scale[0] / y.scale[0]
        if self.rounding == "ref-exact":
            rq = np.array([x.scale[0], y.scale[0]], np.float32)
        else:
            rq = parameters(self.rounding, ratio / np.arange(1, kh * kw + 1))
        self.nodes.append(
            Node(
                f"p{i}a",
                "average_pool",
                (f"p{i}x", self.constant(f"p{i}q", rq)),
                (f"p{i}a",),
                (*window, self.pick(0, 1), *self.limits(kind)),
            )
        )

        def mean(name: str, to: TensorSpec, count: int, dtype: type) -> str:
            s = x.scale[0] / (to.scale[0] * count)
            return self.constant(
                name, np.array([s], dtype) if self.rounding == "ref-exact" else parameters(self.rounding, [s])
            )

        self.nodes.append(
            Node(
                f"p{i}g",
                "global_average_pool",
                (f"p{i}x", mean(f"p{i}gq", g, 143, np.float32)),
                (f"p{i}g",),
                self.limits(kind),
            )
        )
        self.nodes.append(
            Node(
                f"p{i}r",
                "reduce_mean",
                (f"p{i}x", mean(f"p{i}rq", r, 33, np.float64)),
                (f"p{i}r",),
                (0b0110, *self.limits(kind)),
            )
        )

    def floats(self, name: str, shape: tuple[int, ...], spread: float = 4.0) -> str:
        """A float32 graph input: normal values, exact zeros, both infinities kept out."""
        values = self.rng.normal(0, spread, shape).astype(np.float32)
        values[self.rng.random(shape) < 0.05] = 0
        self.values[name], self.specs[name] = values, TensorSpec(name, "float32", shape)
        return name

    def float_node(
        self, name: str, op: str, inputs: tuple[str | None, ...], shape: tuple[int, ...], words: tuple[int, ...]
    ) -> None:
        self.specs[name] = TensorSpec(name, "float32", shape)
        self.nodes.append(Node(name, op, inputs, (name,), words))

    def add_float_functions(self) -> None:
        a, b = self.floats("fa", (3, 5, 17)), self.floats("fb", (5, 1))
        for function in range(6):
            self.float_node(f"two{function}", "elementwise_float", (a, b), (3, 5, 17), (function, 0, 0))
        positive = self.floats("fpos", (999,))
        self.values[positive] = np.abs(self.values[positive]) + np.float32(1e-3)
        wide = self.floats("fwide", (999,), 9.0)
        for function in range(16, 33):
            source = positive if function in (21, 29) else wide
            self.float_node(f"one{function}", "elementwise_float", (source,), (999,), (function, word(0.2), word(0.6)))
        for i, exponent in enumerate((2.0, 3.0, 0.5, -0.7)):
            self.float_node(f"pow{i}", "elementwise_float", (positive,), (999,), (6, word(exponent), 0))

    def add_float_layers(self) -> None:
        x = self.floats("lx", (2, 7, 5, 11))
        self.float_node("sm", "softmax_float", (x,), (2, 7, 5, 11), (2, 7, 55))
        self.float_node(
            "ln", "layer_norm", (x, self.floats("lg", (11,)), self.floats("lb", (11,))), (2, 7, 5, 11), (11, word(1e-5))
        )
        self.float_node("bn", "batch_norm", (x, self.floats("bk", (7,)), self.floats("bb", (7,))), (2, 7, 5, 11), ())
        self.float_node("lr", "lrn", (x,), (2, 7, 5, 11), (5, word(1e-4), word(0.75), word(1.0)))
        self.float_node("rm", "reduce_mean", (x, None), (2, 7), (0b1100, 0, 0))

    def add_preprocessing(self, i: int) -> None:
        """Bytes with random strides to a picture, converted and normalized."""
        rng, height, width = self.rng, self.pick(1, 4, 9), self.pick(1, 6, 11)
        dtype = ("uint8", "int8", "int16", "float32")[i % 4]
        size = np.dtype(dtype).itemsize
        shift, column = self.pick(0, 1), size * self.pick(1, 2, 3)
        row = column * width + self.pick(0, 5)
        offsets = [self.pick(0, 1, 7) for _ in range(3)]
        total = max(offsets) + row * height
        self.values[f"pb{i}"] = rng.integers(0, 256, total, np.uint8)
        if dtype == "float32":
            self.values[f"pb{i}"] &= np.uint8(0x3F)  # no NaN, whose bits arithmetic may change
        self.specs[f"pb{i}"] = TensorSpec(f"pb{i}", "uint8", (total,))
        shape = (1, 3, height, width)
        self.specs[f"pu{i}"] = TensorSpec(f"pu{i}", dtype, shape)
        words = (4, *offsets, *[row] * 3, *[column] * 3, 0, *[shift] * 2)
        self.nodes.append(Node(f"pu{i}", "unpack", (f"pb{i}",), (f"pu{i}",), words))
        if dtype == "float32":
            return
        source = f"pin{i}"
        self.specs[source] = TensorSpec(source, dtype, shape)
        self.values[source] = rng.integers(*RANGE[dtype], shape, endpoint=True).astype(dtype)
        if dtype != "int16":
            matrix = [int(v) for v in rng.integers(-(1 << 24), 1 << 24, 9)]
            self.specs[f"pr{i}"] = TensorSpec(f"pr{i}", "uint8", shape)
            words = (self.pick(1, 20, 24), self.pick(-255, 0), 16, self.pick(0, 128), -5, *matrix)
            self.nodes.append(Node(f"pr{i}", "yuv_to_rgb", (source,), (f"pr{i}",), words))
        numbers = [word(float(v)) for v in rng.uniform(-200, 200, 6)]
        self.float_node(f"pn{i}", "normalize", (source,), shape, tuple(numbers))

    def graph(self) -> Graph:
        outputs = tuple(n.outputs[0] for n in self.nodes)
        return Graph(
            self.nodes,
            self.specs,
            self.constants,
            tuple(self.values),
            outputs,
            self.rounding,
            meta={"source_sha256": "0" * 64},
        )


def digests(program: Path, folder: Path, names: list[str], *flags: str) -> dict[str, str]:
    files = ",".join(f"{i}.bin" for i in range(len(names)))
    command = [str(program), "infer", "--model_file=model.bin", f"--input_file={files}", "--digests", *flags]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[:1000]
    return {
        line.split()[1]: line.split()[0]
        for line in done.stdout.splitlines()
        if len(line.split()) == 3 and len(line.split()[0]) == 16
    }


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("sanitized", [False, pytest.param(True, id="asan+ubsan")])
def test_random_nodes(rounding: str, sanitized: bool, tmp_path: Path) -> None:
    seed = 1000 + ROUNDINGS.index(rounding)
    cases = Cases(rounding, seed)
    for i in range(6):
        cases.add_conv(i)
        cases.add_conv(i + 50)
        cases.add_products(i)
        cases.add_elementwise(i)
    for i in range(2):
        cases.add_conv(i, transposed=True)
        cases.add_conv(i, wide=True)
        cases.add_pools(i)
    check(cases, sanitized, tmp_path, seed)


@pytest.mark.parametrize("sanitized", [False, pytest.param(True, id="asan+ubsan")])
def test_float_nodes(sanitized: bool, tmp_path: Path) -> None:
    cases = Cases("ref-exact", 77)
    cases.add_float_functions()
    cases.add_float_layers()
    check(cases, sanitized, tmp_path, 77)


@pytest.mark.parametrize("sanitized", [False, pytest.param(True, id="asan+ubsan")])
def test_nodes_in_front_of_the_network(sanitized: bool, tmp_path: Path) -> None:
    cases = Cases("ref-exact", 78)
    for i in range(24):
        cases.add_preprocessing(i)
    check(cases, sanitized, tmp_path, 78)


def check(cases: Cases, sanitized: bool, tmp_path: Path, seed: int) -> None:
    graph = cases.graph()
    (tmp_path / "model.bin").write_bytes(encode(graph))
    names = list(cases.values)
    for i, name in enumerate(names):
        (tmp_path / f"{i}.bin").write_bytes(cases.values[name].tobytes())
    fast = digests(binary(sanitized), tmp_path, names)
    plain = digests(binary(sanitized), tmp_path, names, "--plain")
    assert len(fast) == len(graph.nodes)
    for node in graph.nodes:
        want = simulate_node(graph, node, cases.values)[node.outputs[0]]
        digest = xxhash.xxh64(np.ascontiguousarray(want).tobytes(), seed=0).hexdigest()
        assert (fast[node.name], plain[node.name]) == (digest, digest), (
            f"{node.op} {node.name} {node.words}, seed {seed}"
        )
