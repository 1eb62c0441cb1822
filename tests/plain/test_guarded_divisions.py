"""The lowest int32 or int64 by -1, which would end onnxruntime and this process: in every place of a model and in the main job. They
run in processes of their own, so that one that ends fails a test and no more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, parser
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.guard_divisions import guard_divisions

from tests.ops.qdq import Qdq

LOWEST = {"int32": -(2**31), "int64": -(2**63)}
NUMBER = {"int32": TensorProto.INT32, "int64": TensorProto.INT64}
RUN = """
import sys, numpy as np
from pathlib import Path
from qverify.onnx_model.engine import Engine
folder = Path(sys.argv[1])
feed = dict(np.load(folder / "feed.npz"))
for path in sorted(folder.glob("*.onnx")):
    for level in ("disable_all", "all"):
        print(path.stem, level, end=": ", flush=True)
        print(Engine(path.read_bytes(), level=level).run(feed)["y"].tolist(), flush=True)
"""
GRAPHS = {
    "plain": "g (KIND[5] a, KIND[5] b) => (KIND[5] y) { y = OP(a, b) }",
    "by one": "g (KIND[5] a, KIND[5] b) => (KIND[5] y) <KIND one = {-1}> { z = OP(a, one)\n o = Sub(b, b)\n y = Add(z, o) }",
    "in an If": (
        "g (KIND[5] a, KIND[5] b) => (KIND[5] y) <bool c = {1}> { d = Identity(b)\n"
        " y = If(c) <then_branch = t () => (KIND[5] u) { v = Abs(d)\n w = Neg(v)\n u = OP(a, w) },"
        " else_branch = e () => (KIND[5] k) { k = Identity(a) }> }"
    ),
    "without order": "g (KIND[5] a, KIND[5] b) => (KIND[5] y) { y = OP(a, d)\n d = Neg(e)\n e = Abs(b) }",
}


def of(text: str, op: str, kind: str) -> onnx.ModelProto:
    head = '<ir_version: 8, opset_import: ["":17]>\n'
    return parser.parse_model(head + text.replace("KIND", kind).replace("OP", op))


def with_function(op: str, kind: str) -> onnx.ModelProto:
    text = f"""<ir_version: 8, opset_import: ["":17, "own":1]>
g ({kind}[5] a, {kind}[5] b) => ({kind}[5] y) {{ y = own.divide(a, b) }}
<domain: "own", opset_import: ["":17]> divide (p, q) => (r) {{ r = {op}(p, q) }}"""
    return parser.parse_model(text)


def values(kind: str) -> dict[str, np.ndarray]:
    a = np.array([LOWEST[kind], LOWEST[kind] + 1, 7, -7, LOWEST[kind]], kind)
    return {"a": a, "b": np.array([-1, -1, -1, -1, -1], kind)}


def wanted(op: str, a: np.ndarray) -> list[int]:
    return [0] * 5 if op == "Mod" else [int(a[0]), -int(a[1]), -7, 7, int(a[4])]


@pytest.mark.parametrize("kind", LOWEST)
@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_it_has_a_value_in_every_place(op: str, kind: str, tmp_path: Path) -> None:
    models = {place: of(text, op, kind) for place, text in GRAPHS.items()} | {"function": with_function(op, kind)}
    feed = values(kind)
    np.savez(tmp_path / "feed.npz", **feed)
    for place, model in models.items():
        onnx.save(model, tmp_path / f"{place}.onnx")
    done = subprocess.run([sys.executable, "-c", RUN, tmp_path], capture_output=True, text=True, timeout=120)
    lines = [
        f"{place} {level}: {wanted(op, feed['a'])}" for place in sorted(models) for level in ("disable_all", "all")
    ]
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr[-500:])
    assert done.stdout.splitlines() == lines


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_other_divisors_give_what_they_gave(op: str) -> None:
    model = of(GRAPHS["plain"], op, "int32").SerializeToString()
    assert guard_divisions(model) != model
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, b = rng.integers(-40, 40, 5).astype(np.int32), rng.integers(-4, 5, 5).astype(np.int32)
        b[b == 0] = 9
        truncated = (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).tolist()
        assert Engine(model).run({"a": a, "b": b})["y"].tolist() == (
            np.mod(a, b).tolist() if op == "Mod" else truncated
        )


@pytest.mark.parametrize(
    "text",
    [
        "g (float[5] a, float[5] b) => (float[5] y) { y = Div(a, b) }",
        "g (int8[5] a, int8[5] b) => (int8[5] y) { y = Div(a, b) }",
        "g (int64[5] a) => (int64[5] y) <int64 two = {2}> { y = Div(a, two) }",
        "g (int64[5] a) => (int64[5] y) { two = Constant<value = int64 {2}>()\n y = Mod(a, two) }",
        "g (int64[5] a, int64[5] b) => (int64[5] y) { y = Mod<fmod = 1>(a, b) }",
        "g (float[5] Div) => (float[5] y) { y = Abs(Div) }",
    ],
)
def test_what_is_safe_stays_as_it_is(text: str) -> None:
    model = of(text, "", "").SerializeToString()
    assert guard_divisions(model) is model


def test_a_guard_is_known_by_its_nodes_and_not_by_a_name() -> None:
    guard = "t = Equal(b, m)\n d = Where(t, one, b)\n y = Div(a, d)"
    head = "g (int64[5] a, int64[5] b) => (int64[5] y) <int64 m = {-1}, int64 one = {1}> { "
    model = of(head + guard + " }", "", "").SerializeToString()
    assert guard_divisions(model) is model
    for wrong in (guard.replace("Where(t, one, b)", "Where(t, m, b)"), guard.replace("Equal(b, m)", "Equal(a, m)")):
        model = of(head + wrong + " }", "", "").SerializeToString()
        assert guard_divisions(model) != model


def divided(named: str) -> onnx.ModelProto:
    """A Relu, and the lowest int64 by an input. named: of the divisor."""
    m = Qdq("uint8")
    m.output(m.quantize(m.op("Relu", [m.input((2, 3))])))
    by = m.integers((2, 3))
    m.output(m.op("Div", [m.constant("lowest", np.array(np.iinfo(np.int64).min)), m.op("Identity", [by])]))
    model = m.model()
    for node in model.graph.node:
        if node.op_type == "Identity":
            former, node.output[0] = node.output[0], named
    for node in model.graph.node:
        node.input[:] = [named if i == former else i for i in node.input]
    return model


@pytest.mark.parametrize("named", ["by", "by/divisors"])
def test_the_main_job_ends_with_a_verdict(named: str, tmp_path: Path) -> None:
    """The reference, the simulator, the board and default onnxruntime, which runs the file as it is."""
    model = divided(named)
    onnx.save(model, tmp_path / "m.onnx")
    feed = {i.name: np.full((2, 3), -1 if i.type.tensor_type.elem_type == 7 else 2.0) for i in model.graph.input}
    np.savez(
        tmp_path / "i.npz", **{n: v.astype(np.int64 if v.dtype.kind == "i" else np.float32) for n, v in feed.items()}
    )
    words = ["-m", tmp_path / "m.onnx", "-i", tmp_path / "i.npz", "-r", "True"]
    done = subprocess.run([sys.executable, "-m", "qverify", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])


@pytest.mark.parametrize("at", ["frame_step", "frame_length"])
def test_frames_of_length_0(at: str, tmp_path: Path) -> None:
    """STFT divides by both; a model may compute them."""
    others = {"frame_step": "frame_length", "frame_length": "frame_step"}
    text = f"""<ir_version: 8, opset_import: ["":17]>
g (float[1,20,1] x, int64 {at}) => (float[] y) <int64 {others[at]} = {{4}}> {{ y = STFT(x, frame_step, "", frame_length) }}"""
    (tmp_path / "stft.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    np.savez(tmp_path / "feed.npz", **{"x": np.ones((1, 20, 1), np.float32), at: np.array(0, np.int64)})
    done = subprocess.run([sys.executable, "-c", RUN, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.count("stft all: [[") == 1, done.stderr


POOL = """
import sys, numpy as np
from qverify.onnx_model.engine import Engine
print(Engine(open(sys.argv[1], "rb").read()).run({"x": np.zeros((2, 1, 2, 4), np.uint8)})["y"].shape)
"""


@pytest.mark.parametrize(("kernel", "shape"), [([2, 2], (2, 0, 1, 4)), ([1, 2], (2, 1, 1, 4))])
def test_a_window_larger_than_its_input_gives_no_elements(
    kernel: list[int], shape: tuple[int, ...], tmp_path: Path
) -> None:
    """With the channels last, onnxruntime's QLinearAveragePool would end the process."""
    inputs, more = ["x", "s", "z", "s", "z"], {"channels_last": 1, "kernel_shape": kernel}
    nodes = [onnx.helper.make_node("QLinearAveragePool", inputs, ["y"], domain="com.microsoft", **more)]
    ends = [onnx.helper.make_tensor_value_info(n, TensorProto.UINT8, d) for n, d in (("x", (2, 1, 2, 4)), ("y", None))]
    constants = [onnx.numpy_helper.from_array(v, n) for n, v in (("s", np.float32(0.1)), ("z", np.uint8(3)))]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "pool.onnx"
    path.write_bytes(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    done = subprocess.run([sys.executable, "-c", POOL, path], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == f"{shape}\n", done.stderr


OMITTED = """
import sys
from qverify.compiler.compile_model import compile_model
graph = compile_model(open(sys.argv[1], "rb").read(), "q.onnx").graph
print(graph.meta["check"]["over"], len(graph.islands))
"""


def omitted_in_a_loop(m: Qdq) -> None:
    """A Loop whose first state is not read, and a Split in it whose first part is not."""
    info = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node
    nodes = [
        node("Split", ["h", "sizes"], ["", "part"], axis=1),
        node("Concat", ["part", "part", "part"], ["h2"], axis=1),
        node("Identity", ["go"], ["go2"]),
        node("Identity", ["k"], ["k2"]),
    ]
    states = [info(n, TensorProto.FLOAT, (2, 3)) for n in ("k", "h")]
    sizes = onnx.numpy_helper.from_array(np.array([2, 1]), "sizes")
    body = onnx.helper.make_graph(
        nodes,
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), *states],
        [info("go2", TensorProto.BOOL, []), *(info(n, TensorProto.FLOAT, (2, 3)) for n in ("k2", "h2"))],
        [sizes],
    )
    x = m.op("Tanh", [m.input((2, 3))])
    inputs = [m.constant("trips", np.array(3)), m.constant("on", np.array(True)), x, x]
    m.nodes.append(node("Loop", inputs, ["", "last"], name="loop", body=body))
    m.kinds["last"] = (2, 3)
    m.output(m.quantize("last"))


def omitted_part(m: Qdq) -> None:
    x = m.op("Tanh", [m.input((2, 3))])
    m.nodes.append(onnx.helper.make_node("Split", [x, m.constant("sizes", np.array([2, 1]))], ["", "part"], axis=1))
    m.output(m.quantize("part"))


@pytest.mark.parametrize("build", [omitted_in_a_loop, omitted_part])
def test_omitted_outputs_do_not_end_the_process(build: Callable[[Qdq], None], tmp_path: Path) -> None:
    m, path = Qdq(), tmp_path / "q.onnx"
    build(m)
    path.write_bytes(m.model().SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", OMITTED, path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "[] 0\n", done.stderr[-500:]
