"""Large constants are not copied: the session that reads them where they are gives the same values, the pieces of the
integer ONNX are its file, and compiling needs little more memory than the constants."""

from __future__ import annotations

import subprocess
import sys
from collections import UserDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.arithmetic.workers import one_blas_thread
from qverify.compiler.check_units import _run_unit
from qverify.compiler.compile_model import compile_model
from qverify.errors import BadFileError
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.records import decode, encode
from qverify.model_bin.units import units
from qverify.onnx_model import sliced_engine
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.expose_tensors import expose_tensors
from qverify.onnx_model.light_model import LARGE, LightModel, light_model
from qverify.onnx_model.load import load
from qverify.onnx_model.open_exposed import open_exposed
from qverify.onnx_model.sliced_engine import NODES_PER_SLICE, SlicedEngine, open_long
from qverify.sides import simulator
from qverify.sides.reference import Reference
from qverify.sides.simulator import Simulator
from threadpoolctl import threadpool_info

SIZE = 192
PEAK = """
import sys
from pathlib import Path
from qverify.compiler.compile_model import compile_model
from qverify.model_bin.records import encode_pieces
def peak():
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024
compile_model(Path(sys.argv[1]).read_bytes(), "small.onnx")
before = peak()
encode_pieces(compile_model(Path(sys.argv[2]).read_bytes(), "large.onnx").graph)
print(peak() - before)
"""
PEAK_OF_JOB = """
import sys
from pathlib import Path
from qverify.compare.options import Options
from qverify.session.job import verify
from qverify.session.request import Request
def peak():
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024
def run(name):
    assert verify(Request([name + ".onnx", name + ".bin"], options=Options(dump_all=True))).report.verdict == "PASSED"
run(sys.argv[1])
before = peak()
run(sys.argv[2])
print(peak() - before)
"""


def products(count: int, size: int = SIZE) -> onnx.ModelProto:
    """A chain of products with constants of `size` rows and columns, quantized to 8 bits."""
    random = np.random.default_rng(0)
    values = {"s": np.float32(0.02), "z": np.uint8(128), "ws": np.float32(0.01), "wz": np.int8(0)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q0"])]
    for i in range(count):
        values[f"w{i}"] = random.integers(-127, 127, (size, size)).astype(np.int8)
        nodes += [
            helper.make_node("DequantizeLinear", [f"q{i}", "s", "z"], [f"d{i}"]),
            helper.make_node("DequantizeLinear", [f"w{i}", "ws", "wz"], [f"e{i}"]),
            helper.make_node("MatMul", [f"d{i}", f"e{i}"], [f"m{i}"]),
            helper.make_node("QuantizeLinear", [f"m{i}", "s", "z"], [f"q{i + 1}"]),
        ]
    nodes.append(helper.make_node("DequantizeLinear", [f"q{count}", "s", "z"], ["y"]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, size]) for n in ("x", "y")]
    constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in values.items()]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def feed(size: int = SIZE) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).uniform(-2, 2, (1, 2, size)).astype(np.float32)}


def same_values(model: onnx.ModelProto, names: list[str]) -> None:
    plain = Engine(expose_tensors(model, names).SerializeToString()).run(feed())
    mine = open_exposed(model, names).run(feed())
    assert list(mine) == list(plain)
    assert all(mine[n].tobytes() == plain[n].tobytes() for n in plain)


def test_a_session_of_lent_constants_gives_the_same_values():
    model = products(2)
    light = light_model(model)
    assert light.constants.keys() == {"w0", "w1"} and light.model.ByteSize() < LARGE
    same_values(model, ["q1", "m1", "q2"])


def test_lent_constants_that_nothing_reads_or_that_are_outputs():
    model = products(1)
    spare = np.arange(SIZE * SIZE, dtype=np.int32).reshape(SIZE, SIZE)
    model.graph.initializer.extend(numpy_helper.from_array(spare + i, n) for i, n in enumerate(("unread", "shown")))
    model.graph.output.append(helper.make_tensor_value_info("shown", TensorProto.INT32, spare.shape))
    same_values(model, ["q1"])


def test_lent_constants_that_a_branch_reads():
    model = products(1)
    branches = [
        helper.make_graph(
            [helper.make_node("DequantizeLinear", ["w0", "ws", "wz"], [f"{n}e"]), helper.make_node(n, [f"{n}e"], [n])],
            n,
            [],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, [SIZE, SIZE])],
        )
        for n in ("Abs", "Neg")
    ]
    model.graph.initializer.append(numpy_helper.from_array(np.array(False), "which"))
    model.graph.node.append(
        helper.make_node("If", ["which"], ["taken"], then_branch=branches[0], else_branch=branches[1])
    )
    same_values(model, ["taken", "q1"])


def ladder(count: int) -> onnx.ModelProto:
    """Products whose first and last tensors are added, with shapes of all tensors, as `load` returns it."""
    model = products(count, 4)
    del model.graph.node[-1], model.graph.output[:]
    adding = [
        helper.make_node("DequantizeLinear", ["q1", "s", "z"], ["first"]),
        helper.make_node("DequantizeLinear", [f"q{count}", "s", "z"], ["last"]),
        helper.make_node("Add", ["first", "last"], ["y"]),
    ]
    model.graph.node.extend(adding)
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 4]))
    return load(model.SerializeToString(), "ladder.onnx")


def test_a_long_model_in_slices_gives_the_same_values():
    model = ladder(NODES_PER_SLICE)
    names = [o for node in model.graph.node for o in node.output]
    sliced, whole = open_long(model, names), open_exposed(model, names)
    assert isinstance(sliced, SlicedEngine) and isinstance(whole, Engine)
    assert sliced.inputs == whole.inputs and sliced.settings == whole.settings and set(sliced.outputs) == set(names)
    mine, theirs = sliced.run(feed(4)), whole.run(feed(4))
    assert all(mine[n].tobytes() == theirs[n].tobytes() for n in names)
    assert sliced.run(feed(4), ["y", "q2"]).keys() == {"y", "q2"}


def test_a_long_model_without_shapes_is_one_session():
    model = ladder(NODES_PER_SLICE)
    del model.graph.value_info[:]
    assert isinstance(open_long(model, ["q2"]), Engine)


def test_checking_a_long_model_opens_no_session_of_all_of_it(monkeypatch: pytest.MonkeyPatch):
    sizes = list[int]()
    opened = sliced_engine.open_exposed

    def counted(part: LightModel, names: list[str]) -> Engine:
        sizes.append(len(part.model.graph.node))
        return opened(part, names)

    monkeypatch.setattr(sliced_engine, "open_exposed", counted)
    steps = list[tuple[str, int, int]]()

    def watch(*step: Any) -> None:
        steps.append(step)

    graph = compile_model(ladder(NODES_PER_SLICE).SerializeToString(), "ladder.onnx", watch=watch).graph
    assert graph.meta["check"]["units"] == NODES_PER_SLICE + 2 and not graph.meta["check"]["not_checked"]
    assert len(sizes) > 3 and max(sizes) == NODES_PER_SLICE
    assert [step for step in steps if step[0] == "opening"] == [
        ("opening", k + 1, len(sizes)) for k in range(len(sizes))
    ]


def test_the_pieces_of_the_integer_onnx_are_its_file():
    compiled = compile_model(products(2).SerializeToString(), "p.onnx")
    whole = compiled.integer_onnx
    assert len(compiled.integer) > 4 and any(isinstance(p, memoryview) for p in compiled.integer)
    assert onnx.ModelProto.FromString(whole).SerializeToString(deterministic=True) == whole
    constants = {i.name: numpy_helper.to_array(i) for i in onnx.ModelProto.FromString(whole).graph.initializer}
    assert np.array_equal(constants["w1"], numpy_helper.to_array(products(2).graph.initializer[5]))


def test_the_light_integer_onnx_is_that_of_its_file():
    compiled = compile_model(products(2).SerializeToString(), "p.onnx")
    ours, theirs = compiled.integer_model(), light_model(onnx.ModelProto.FromString(compiled.integer_onnx))
    assert ours.model == theirs.model and ours.constants.keys() == theirs.constants.keys() == {"w0", "w1"}
    assert all(np.array_equal(v, theirs.constants[n]) for n, v in ours.constants.items())


def test_constants_that_model_bin_has_too_are_in_memory_once():
    """Equal ones alone: what the reference computes with comes from the ONNX."""
    compiled = compile_model(products(2).SerializeToString(), "p.onnx")
    whole, read = compiled.integer_onnx, decode(encode(compiled.graph))
    read.constants["w1"] = read.constants["w1"] ^ np.int8(1)
    compiled.adopt(read)
    shared = compiled.integer_model().constants
    assert compiled.integer_onnx == whole
    assert np.shares_memory(shared["w0"], read.constants["w0"])
    assert not np.shares_memory(shared["w1"], read.constants["w1"])


def test_the_main_job_holds_the_constants_few_times(tmp_path: Path):
    """It holds those of both files, onnxruntime's packed ones, and for a time those of the plain run."""
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc/self/status for the peak of the memory")
    words = [sys.executable, "-B", "-c", PEAK_OF_JOB]
    for name, model in (("small", products(1)), ("large", products(24, 1536))):
        (tmp_path / f"{name}.onnx").write_bytes(model.SerializeToString())
        compiled = compile_model(model.SerializeToString(), f"{name}.onnx")
        (tmp_path / f"{name}.bin").write_bytes(encode(compiled.graph))
        words.append(str(tmp_path / name))
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    assert int(done.stdout) < 6 * 24 * 1536 * 1536, done.stdout


def test_compiling_holds_the_constants_once(tmp_path: Path):
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc/self/status for the peak of the memory")
    (tmp_path / "small").write_bytes(products(1).SerializeToString())
    large = products(24, 1536)
    (tmp_path / "large").write_bytes(large.SerializeToString())
    words = [sys.executable, "-B", "-c", PEAK, str(tmp_path / "small"), str(tmp_path / "large")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    assert (
        int(done.stdout) < 9 * large.ByteSize()
    )  # of which 4 are weights that onnxruntime dequantizes, all before it multiplies


@pytest.mark.parametrize("name", ["w0", "w1"])
def test_a_large_constant_of_too_few_bytes_is_refused(name: str):
    model = products(2)
    damaged = next(i for i in model.graph.initializer if i.name == name)
    damaged.raw_data = damaged.raw_data[:-1]
    with pytest.raises(BadFileError, match=f"initializer '{name}' is damaged"):
        load(model.SerializeToString(), "p.onnx")


def test_two_large_constants_of_one_name_are_refused():
    model = products(2)
    model.graph.initializer.append(model.graph.initializer[4])
    with pytest.raises(BadFileError, match="not a valid ONNX model"):
        load(model.SerializeToString(), "p.onnx")


@pytest.mark.parametrize(
    ("attribute", "text"),
    [("axis", "operator set 11 has no axis; .* to operator set 13 with"), ("no", "Unrecognized attribute: no")],
)
def test_an_attribute_of_a_newer_operator_set_is_named(attribute: str, text: str):
    """onnxruntime's quantizer writes axis into models of older operator sets, which it then does not load."""
    model = products(2)
    model.opset_import[0].version = 11
    node = next(n for n in model.graph.node if n.op_type == "DequantizeLinear")
    node.attribute.append(onnx.helper.make_attribute(attribute, 0))
    with pytest.raises(BadFileError, match=f"not a valid ONNX model: .*{text}"):
        load(model.SerializeToString(), "p.onnx")


def test_an_unknown_attribute_in_a_model_of_two_operator_sets():
    """The first one lacks the operator."""
    model = products(2)
    model.opset_import[0].version = 13
    model.opset_import.append(onnx.helper.make_opsetid("", 20))
    gelu = onnx.helper.make_node("Gelu", [model.graph.node[-1].output[0]], ["g"], foo=1)
    model.graph.node.append(gelu)
    with pytest.raises(BadFileError, match="Unrecognized attribute: foo"):
        load(model.SerializeToString(), "p.onnx")


class Uncopied(UserDict[str, np.ndarray]):
    """Values that are looked up by name only."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all of the recorded values are looked at for one unit")


def test_checking_a_unit_looks_at_its_tensors_only():
    graph = compile_model(products(2).SerializeToString(), "p.onnx").graph
    unit, side = units(graph)[1], Simulator(graph)
    assert unit.name == "q1"
    recorded = Uncopied(q0=np.full((1, 2, SIZE), 130, np.uint8))
    assert _run_unit(side, unit, recorded)["q1"].shape == (1, 2, SIZE)


def test_one_blas_thread_is_entered_once_and_left():
    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    before = threads()
    with one_blas_thread():
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == before


def test_a_reference_of_lent_constants_gives_the_same_values_and_parts():
    compiled = compile_model(products(2).SerializeToString(), "p.onnx")
    graph, prepared = compiled.graph, random_inputs(compiled.graph, 3)
    lent, whole = (Reference(of, graph) for of in (compiled.integer_model(), compiled.integer_onnx))
    assert lent.run(prepared).digests == whole.run(prepared).digests
    unit = units(graph)[2]
    given = {"q1": np.full((1, 2, SIZE), 130, np.uint8)}
    assert np.array_equal(lent.run_unit(unit, given)["q2"], whole.run_unit(unit, given)["q2"])
    assert lent.cut(["q1"], ["q2"]) == whole.cut(["q1"], ["q2"])
    assert [v.model for v in lent.variants(prepared)] == [v.model for v in whole.variants(prepared)]


def test_what_is_prepared_beyond_a_limit_is_not_kept(monkeypatch: pytest.MonkeyPatch):
    """Nodes that were forgotten make room for others."""
    graph = compile_model(products(2).SerializeToString(), "p.onnx").graph
    kept = Simulator(graph)
    monkeypatch.setattr(simulator, "MAX_PREPARED_BYTES", 5 * SIZE * SIZE)  # of 4 bytes each
    freed = Simulator(graph)
    prepared = random_inputs(graph, 3)
    products_of = [n.name for n in graph.nodes if n.op == "matmul"]
    for _ in range(2):
        assert freed.run(prepared).digests == kept.run(prepared).digests
        assert [name in freed._states for name in products_of] == [True, False]
    assert all(name in kept._states for name in products_of)
    for unit in units(graph):
        freed.forget(unit)
    assert not freed._states and freed._room == 5 * SIZE * SIZE
