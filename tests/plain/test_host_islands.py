"""Nodes that no kernel serves are computed on the host, named, and never counted; all around them is verified."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main
from qverify.compare.options import Options
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import QVerifyError, UnsupportedError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.islands import HostNode
from qverify.model_bin.records import encode
from qverify.model_bin.units import units
from qverify.report.document import ReportDocument
from qverify.session.host_sides import HostSides
from qverify.session.job import verify
from qverify.session.models import open_models
from qverify.session.request import Request
from qverify.session.triage.float_stages import network_values

from tests.exact_default import exact_default
from tests.ops.qdq import Qdq
from tests.plain.island_models import (
    MICROSOFT,
    SHAPE,
    between,
    branches,
    compiled,
    conv,
    crossed,
    grid_sample,
    loop,
    model,
    rounds,
    sequence,
    tail,
)

LABEL = "1 node computed on the host, not verified"


CASES: dict[Callable[[Qdq], None], tuple[set[str], int]] = {  # operators on the host, islands
    between: ({"GridSample"}, 1),
    branches: ({"If"}, 1),
    loop: ({"Loop"}, 1),
    sequence: ({"SplitToSequence", "SequenceAt"}, 1),
    tail: ({"NonZero", "Cast"}, 1),
    rounds: ({"GridSample", "Inverse"}, 2),
    crossed: ({"GridSample"}, 2),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "q.onnx"
    path.write_bytes(model(between).SerializeToString())
    return path


def run(path: Path, board: str = "local") -> ReportDocument:
    return verify(Request([str(path)], board, options=Options(dump_all=True))).report


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_all_around_an_island_is_verified(build: Callable[[Qdq], None], tmp_path: Path):
    operators, islands = CASES[build]
    path = tmp_path / "q.onnx"
    path.write_bytes(model(build).SerializeToString())
    graph = compiled(build)
    assert {n.op for i in graph.islands for n in i.nodes} == operators and len(graph.islands) == islands
    check = graph.meta["check"]
    assert check["units"] == len(units(graph)) and not check["over"] and not check["not_checked"], check
    report = run(path)
    assert report.verdict == "PASSED" and {n["op"] for n in report.on_host} == operators
    by_host = {n for island in graph.islands for n in island.made}
    for pair in report.pairs:
        assert {r.name for r in pair.tensors} == {*graph.observable()} and by_host.isdisjoint(graph.observable())
        assert pair.coverage.elements == sum(graph.spec(n).elements for n in graph.observable())
    assert report.pairs[2].bit_equal
    assert report.caveats[0].startswith(f"{len(report.on_host)} node")


def test_what_the_host_computes_is_said_everywhere(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target, report = tmp_path / "m.bin", tmp_path / "r.json"
    assert main(["compile", str(file), "-o", str(target)]) == 0
    out = capsys.readouterr().out
    assert "computed on the host, not verified: gridsample7_node (GridSample): cubic" in out
    assert main(["-m", f"{file},{target}", "-b", "local", "--json", str(report)]) == 0
    out = capsys.readouterr().out
    assert "computed on the host, not verified: gridsample7_node (GridSample)" in out
    lines = [line for line in out.splitlines() if "Strict check" in line]
    assert len(lines) == 3 and all("PASSED" in line and LABEL in line for line in lines)
    document = json.loads(report.read_text())
    assert [n["op"] for n in document["on_host"]] == ["GridSample"] and LABEL in document["caveats"]
    assert main(["triage", "-m", f"{file},{target}", "-b", "local"]) == 0
    assert LABEL in capsys.readouterr().out.splitlines()[-1]


def test_what_needs_the_host_is_refused_where_it_may_not_or_cannot(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    target = tmp_path / "m.bin"
    assert main(["compile", str(file), "--no-host", "-o", str(target)]) == 2 and not target.exists()
    assert main(["compile", str(file), "--list"]) == 2
    assert capsys.readouterr().out.splitlines()[-1] == f"without --no-host it is compiled: {LABEL}"
    assert main(["-m", str(file), "--no-host"]) == 2
    assert main(["compile", str(file), "-o", str(target)]) == 0
    capsys.readouterr()
    assert main(["-m", f"{file},{target}", "-b", "local", "--no-host"]) == 2
    assert f"{LABEL}, which --no-host refuses" in capsys.readouterr().err
    assert main(["-m", str(target), "-b", "local"]) == 2
    assert "give the quantized ONNX" in capsys.readouterr().err
    assert main(["pack", "-m", f"{file},{target}", "-o", str(tmp_path / "bundle")]) == 2
    assert "cannot wait for the host" in capsys.readouterr().err


def at_the_input(m: Qdq) -> None:
    """The first operator has no page: with preprocessing on the board, the island reads what that makes."""
    m.inputs.append(helper.make_tensor_value_info("img", TensorProto.FLOAT, SHAPE))
    m.feed["img"] = m.rng.uniform(-1, 1, SHAPE).astype(np.float32)
    m.output(conv(m, m.quantize(grid_sample(m, "img")), 3, 3))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (rounds, ["--align", "16"]),
        (rounds, ["--no-fuse"]),
        (rounds, ["--rounding", "cmsis"]),
        (rounds, ["--strip-io-quant"]),
        (at_the_input, []),
        (at_the_input, ["--input", "img=rgb,mean=1,scale=0.02"]),
    ],
)
def test_every_option_of_compile_goes_with_islands(build: Callable[[Qdq], None], words: list[str], tmp_path: Path):
    path, target = tmp_path / "q.onnx", tmp_path / "m.bin"
    path.write_bytes(model(build).SerializeToString())
    assert main(["compile", str(path), "-o", str(target), *words]) == 0
    assert main(["-m", f"{path},{target}", "-b", "local", "-r", "True", "--repeat", "2", "--paranoid"]) == 0


def test_what_an_island_reads_of_the_preprocessing_is_judged_without_dumps(tmp_path: Path):
    path, target, out = tmp_path / "q.onnx", tmp_path / "m.bin", tmp_path / "r.json"
    path.write_bytes(model(at_the_input).SerializeToString())
    assert main(["compile", str(path), "-o", str(target), "--input", "img=rgb,mean=1,scale=0.02"]) == 0
    words = ["-m", f"{path},{target}", "-s", "False", "--json", str(out), "-b"]
    assert main([*words, "local"]) == 0
    assert "img" in [row["name"] for row in json.loads(out.read_text())["pairs"][0]["tensors"]]
    assert main([*words, "faulty:local?fault=channel_reverse@img"]) == 1


def test_what_islands_read_is_no_output_of_the_network(tmp_path: Path):
    path = tmp_path / "q.onnx"
    path.write_bytes(model(tail).SerializeToString())
    models, written = open_models([str(path)]), model(tail)
    prepared = prepared_inputs(models.graph, InputRequest())
    feed, finals = network_values(models.graph, prepared, HostSides(models).run(prepared, True))
    assert feed.keys() == {"in0"} and finals.keys() == {o.name for o in written.graph.output}
    assert len(models.graph.outputs) == 2 and len(models.graph.network_outputs()) == 1


def test_what_no_output_needs_is_not_computed_on_the_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def build(m: Qdq) -> None:
        x = conv(m, m.input(SHAPE), 3, 3)
        m.op("Resize", [x, "", "", m.constant("size", np.array([1, 3, 12, 12], np.int64))], mode="cubic")
        m.output(conv(m, x, 3, 2))

    path, target = tmp_path / "q.onnx", tmp_path / "m.bin"
    path.write_bytes(model(build).SerializeToString())
    assert main(["compile", str(path), "-o", str(target)]) == 0
    assert main(["-m", f"{path},{target}", "-b", "local"]) == 0
    assert "on the host" not in capsys.readouterr().out


def test_names_of_classes_are_compared_with_those_of_the_untouched_file(tmp_path: Path):
    m = Qdq()
    m.output(conv(m, m.input(SHAPE), 3, 3))
    best = m.op("ArgMax", [m.outputs[0]], axis=1, keepdims=0)
    names = {"keys_int64s": [0, 1, 2], "values_strings": ["cat", "dog", "bird"]}
    m.output(best)
    model = m.model()
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
    model.graph.node.append(helper.make_node("LabelEncoder", [best], ["label"], domain="ai.onnx.ml", **names))
    model.graph.output[1].CopyFrom(helper.make_tensor_value_info("label", TensorProto.STRING, None))
    path = tmp_path / "q.onnx"
    path.write_bytes(model.SerializeToString())
    with exact_default():
        report = run(path)
    assert report.verdict == "PASSED" and [o["equal"] for o in report.plain_onnxruntime["outputs"]] == [True, True]


def refusal(build: Callable[[Qdq], None]) -> str:
    with pytest.raises(UnsupportedError) as caught:
        compiled(build)
    return str(caught.value)


def test_random_numbers_are_not_computed_on_the_host():
    def build(m: Qdq) -> None:
        m.output(conv(m, m.quantize(m.op("Bernoulli", [m.op("Sigmoid", [conv(m, m.input(SHAPE), 3, 3)])])), 3, 2))

    assert "(Bernoulli): Bernoulli draws random numbers" in refusal(build)


def test_a_dropout_that_drops_is_not_computed_on_the_host():
    def build(m: Qdq) -> None:
        ratio, training = m.constant("ratio", np.float32(0.5)), m.constant("training", np.bool_(True))
        x = m.op("Transpose", [conv(m, m.input(SHAPE), 3, 3)], perm=[0, 1, 3, 2])
        m.output(conv(m, m.quantize(grid_sample(m, m.op("Dropout", [x, ratio, training]))), 3, 2))

    assert "(Dropout): training_mode is not false" in refusal(build)


@pytest.mark.parametrize("name", ["conv4_q/rq", "conv4_q/weight"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_tensor_of_an_island_may_have_the_name_that_the_compiler_gives_a_constant(
    name: str, inside: bool, tmp_path: Path
):
    """inside: in a branch of an If; else an output that no node of the board reads."""

    def build(m: Qdq) -> None:
        x = conv(m, m.input(SHAPE), 3, 3)
        one = helper.make_tensor_value_info("one", TensorProto.FLOAT, SHAPE)
        nodes = [helper.make_node("Neg", [x], [name]), helper.make_node("Abs", [name], ["one"])]
        graphs = [helper.make_graph(n, "g", [], [one]) for n in (nodes, [helper.make_node("Neg", [x], ["one"])])]
        high = m.op("Greater", [m.op("ReduceSum", [x], keepdims=0), m.constant("zero", np.float32(0))])
        y = (
            m.op("If", [high], then_branch=graphs[0], else_branch=graphs[1])
            if inside
            else m.op("Inverse", [x], name, MICROSOFT)
        )
        m.output(conv(m, m.quantize(m.op("Inverse", [y], domain=MICROSOFT)), 3, 2))
        if not inside:
            m.output(name)

    graph = compiled(build)
    assert f"{name}~" in graph.constants
    path = tmp_path / "q.onnx"
    path.write_bytes(model(build).SerializeToString())
    assert run(path).verdict == "PASSED"


def shape_by_value(m: Qdq) -> None:
    """An If whose second branch sums an axis away where the first element is not above 0; a Reshape then fails."""
    x = conv(m, m.input(SHAPE), 3, 3)
    made = helper.make_tensor_value_info("one", TensorProto.FLOAT, None)
    axis = helper.make_node("Constant", [], ["axis"], value=numpy_helper.from_array(np.array([2]), "axis"))
    shorter = [axis, helper.make_node("ReduceSum", [x, "axis"], ["one"], keepdims=1)]
    same = [helper.make_node("Identity", [x], ["one"])]
    graphs = [helper.make_graph(nodes, name, [], [made]) for name, nodes in (("same", same), ("shorter", shorter))]
    first = m.op(
        "Gather", [m.op("Reshape", [x, m.constant("flat", np.array([-1]))]), m.constant("at", np.array(0))], axis=0
    )
    high = m.op("Greater", [first, m.constant("zero", np.float32(0))])
    m.output(conv(m, m.quantize(m.op("If", [high], then_branch=graphs[0], else_branch=graphs[1])), 3, 2))


def shape_that_a_later_node_refuses(m: Qdq) -> None:
    shape_by_value(m)
    m.outputs[-1] = m.op("Reshape", [m.outputs[-1], m.constant("whole", np.array([1, 2 * SHAPE[2] * SHAPE[3]]))])


@pytest.mark.parametrize("build", [shape_by_value, shape_that_a_later_node_refuses])
def test_an_input_that_changes_a_shape_behind_an_island_is_inconclusive(build: Callable[[Qdq], None], tmp_path: Path):
    path = tmp_path / "q.onnx"
    path.write_bytes(model(build).SerializeToString())
    verdicts = set()
    for seed in range(4):
        report = verify(
            Request([str(path)], "local", inputs=InputRequest(seed=seed), options=Options(dump_all=True))
        ).report
        verdicts.add(report.verdict)
        if report.verdict != "PASSED":
            assert [p.verdict for p in report.pairs] == ["INCONCLUSIVE"] * 3 and report.blame is None
            assert all("computed on the host" in p.why for p in report.pairs)
            assert all("for this input, the model says float32[1, 3, 6, 6]" in p.why for p in report.pairs[1:])
    assert verdicts == {"PASSED", "INCONCLUSIVE"}


def test_wrong_numbers_are_refused_and_never_computed_on_the_host():
    broken = model(between)
    for constant in broken.graph.initializer:
        if constant.name == "conv4_scale":
            constant.CopyFrom(numpy_helper.from_array(np.float32(-1), constant.name))
    with pytest.raises(UnsupportedError, match="a scale is not finite and positive"):
        compile_model(broken.SerializeToString(), "q.onnx", CompilerOptions(host=True))


def test_a_board_that_computes_nothing_is_not_verified():
    def build(m: Qdq) -> None:
        m.output(m.quantize(m.op("Inverse", [m.input(SHAPE)], domain=MICROSOFT)))

    assert refusal(build).endswith("Computed on the host (1 node), nothing would be left to verify")


@pytest.mark.parametrize("node", ["conv4_q", "gridsample7_q", "conv12_q"])
def test_a_fault_before_and_behind_an_island_is_found_at_its_node(file: Path, node: str):
    report = run(file, f"faulty:local?fault=plus_one@{node}")
    assert report.verdict == "FAILED" and report.blame is not None
    assert (report.blame.side, report.blame.node, report.blame.also) == ("board", node, [])


def test_an_island_may_be_listed_before_one_that_it_reads():
    first, second = compiled(crossed).islands
    assert {*first.inputs} & {*second.made} and compiled(crossed).islands_in_order() == [second, first]


def test_a_board_of_little_memory_gives_every_tensor_an_island_reads(tmp_path: Path):
    path = tmp_path / "q.onnx"
    path.write_bytes(model(rounds).SerializeToString())
    assert run(path, "local?memory=1000").verdict == "PASSED"


def test_a_board_that_runs_no_part_is_not_verified(file: Path):
    report = run(file, "finals:local")
    assert [p.verdict for p in report.pairs] == ["PASSED", "INCONCLUSIVE", "INCONCLUSIVE"]
    assert "cannot run the part before a host island" in report.pairs[1].why


@pytest.mark.parametrize(("fault", "status"), [("", 0), ("faulty:local?fault=plus_one@conv4_q", 1)])
def test_a_soak_and_many_frames_go_with_islands(
    file: Path, tmp_path: Path, fault: str, status: int, capsys: pytest.CaptureFixture[str]
):
    assert main(["soak", "-m", str(file), "-b", fault or "local", "--for", "0.5"]) == status
    out = capsys.readouterr().out
    assert LABEL in out and (" 0 wrong" in out) == (status == 0)
    frames = tmp_path / "frames"
    frames.mkdir()
    for number in range(3):
        np.random.default_rng(number).uniform(-2, 3, SHAPE).astype(np.float32).tofile(frames / f"{number}.bin")
    assert main(["-m", str(file), "-b", fault or "local", "-i", str(frames)]) == status
    assert all(LABEL in line for line in capsys.readouterr().out.splitlines()[-3:])


@pytest.mark.parametrize(("node", "verdict"), [("", 0), ("conv4_q", 1), ("conv12_q", 1)])
def test_a_capture_is_judged_with_islands_of_its_own_tensors(
    file: Path, tmp_path: Path, node: str, verdict: int, capsys: pytest.CaptureFixture[str]
):
    board, cap = f"faulty:local?fault=plus_one@{node}" if node else "local", str(tmp_path / "cap")
    assert main(["-m", str(file), "-b", board, "-r", "True", "--capture", cap]) == verdict
    first = [line for line in capsys.readouterr().out.splitlines() if "Strict" in line or "blame" in line]
    assert main(["replay", cap]) == verdict
    assert [line for line in capsys.readouterr().out.splitlines() if "Strict" in line or "blame" in line] == first
    assert main(["replay", cap, "--rerun", "simulator"]) == verdict


def test_dumps_contain_only_what_can_be_compared(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert main(["infer", "-m", str(file), "--side", "simulator", "-o", a]) == 0
    assert main(["infer", "-m", str(file), "--side", "board", "-b", "local", "-o", b]) == 0
    assert "gridsample7" not in json.loads((tmp_path / "a" / "manifest.json").read_text())["tensors"].values()
    capsys.readouterr()
    assert main(["compare", a, b]) == 0
    assert LABEL in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"nodes": (HostNode("conv4_node", "Conv", ""),)}, "what it leaves to the host"),
        ({"finals": ("conv12_dq_",)}, "what it leaves to the host"),
        (None, "what it leaves to the host"),  # what they make as inputs of the network
    ],
)
def test_what_a_model_bin_leaves_to_the_host_follows_from_its_onnx(file: Path, tmp_path: Path, change, why: str):
    graph, path = compiled(), tmp_path / "m.bin"
    claimed = replace(graph, islands=(), inputs=graph.fed())
    if change is not None:
        claimed = replace(graph, islands=(replace(graph.islands[0], **change),))
    path.write_bytes(encode(claimed))
    with pytest.raises(QVerifyError, match=why):
        verify(Request([str(file), str(path)], "local"))
    other = replace(graph, meta={**graph.meta, "integer_sha256": "0", "source_sha256": "0"})
    path.write_bytes(encode(other))
    with pytest.raises(QVerifyError, match="needs the right ONNX"):
        verify(Request([str(file), str(path)], "local", allow_other_model=True))
