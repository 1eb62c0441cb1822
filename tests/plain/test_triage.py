"""qverify triage: the rung that breaks, the culprit first, the next step; and everything that must never look like a holding ladder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.report.schema import triage_schema
from qverify.tensors.spec import TensorSpec
from qverify.triage.ladder import Outputs, RungGate, parse_gate, real_spec
from qverify.triage.loss import loudest_frames
from qverify.triage.loudness import OutputStep

PLANTED = "r2"


def float_model(path: Path, bias: bool = True, name: str = "{}") -> None:
    """Two branches of Conv and Relu, added, pooled, and a Gemm. bias: of the second convolution."""
    made = np.random.default_rng(7)

    def weights(*shape: int) -> np.ndarray:
        return (made.standard_normal(shape) * 0.3).astype(np.float32)

    named = name.format
    held = {
        "w1": weights(5, 3, 3, 3), "b1": weights(5), "w2": weights(7, 5, 3, 3), "b2": weights(7) + 1,
        "w3": weights(7, 5, 1, 1), "b3": weights(7), "w4": weights(7, 10), "b4": weights(10),
    }  # fmt: skip
    if not bias:
        held["b2"] = held["b2"] * 0
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], [named("c1")], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", [named("c1")], [named("r1")], "relu1"),
        helper.make_node("Conv", [named("r1"), "w2", "b2"], [named("c2")], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", [named("c2")], [named("r2")], "relu2"),
        helper.make_node("Conv", [named("r1"), "w3", "b3"], [named("c3")], "conv3"),
        helper.make_node("Add", [named("r2"), named("c3")], [named("a")], "add"),
        helper.make_node("GlobalAveragePool", [named("a")], [named("p")], "pool"),
        helper.make_node("Flatten", [named("p")], [named("f")], "flatten"),
        helper.make_node("Gemm", [named("f"), "w4", "b4"], ["y"], "gemm"),
    ]
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 11, 13])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(v, n) for n, v in held.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(onnx.shape_inference.infer_shapes(model), path)


class Reader:
    def __init__(self, frames: list[np.ndarray]):
        self.frames = iter([{"x": f} for f in frames])

    def get_next(self) -> Any:
        return next(self.frames, None)


def frames(count: int) -> list[np.ndarray]:
    made = np.random.default_rng(3)
    return [made.standard_normal((1, 3, 11, 13)).astype(np.float32) for _ in range(count)]


def quantized(source: Path, target: Path, planted: float = 1.0, **more: Any) -> None:
    """planted: the scale of PLANTED is multiplied by it, so that it saturates. Biases of its reader do not depend on it."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(source, target, Reader(frames(8)), **{"quant_format": QuantFormat.QDQ, **kinds, **more})
    model = onnx.load(target)
    for held in model.graph.initializer:
        if held.name == f"{PLANTED}_scale":
            held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held) * np.float32(planted), held.name))
    onnx.save(model, target)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """float.onnx, quant.onnx, bad.onnx (one saturated scale), x.npy, frames/."""
    folder = tmp_path_factory.mktemp("triage")
    float_model(folder / "float.onnx")
    quantized(folder / "float.onnx", folder / "quant.onnx")
    quantized(folder / "float.onnx", folder / "bad.onnx", 1 / 64)
    (folder / "frames").mkdir()
    for at, frame in enumerate(frames(3)):
        np.save(folder / "frames" / f"{at}.npy", frame)
    np.save(folder / "x.npy", frames(1)[0])
    return folder


def run(tmp_path: Path, *words: object) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "triage.json"
    out.unlink(missing_ok=True)
    status = main(["triage", *map(str, words), "--json", str(out)])
    return status, json.loads(out.read_text()) if out.exists() else {}


def test_every_gate_holds_on_good_models(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = run(tmp_path, "-m", f"{made}/float.onnx,{made}/quant.onnx", "-b", "local", "-i", made / "x.npy")
    jsonschema.validate(found, triage_schema())
    assert (status, found["verdict"], found["broken"], found["schema"]) == (0, "PASSED", None, "qverify.triage/1")
    assert [(r["a"], r["b"]) for r in found["rungs"]] == [
        ("float", "reference"), ("reference", "simulator"), ("simulator", "board")
    ]  # fmt: skip
    assert all(r["not_forced"] == 0 for r in found["rungs"][1:]) and not found["unpaired"]
    assert "TRIAGE: all 3 gates pass" in capsys.readouterr().out


@pytest.mark.parametrize("given", ["x.npy", "frames"])
def test_the_saturated_tensor_is_named_first_and_what_if_restores_the_output(
    made: Path, tmp_path: Path, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = "float~reference=cosine:0.99"
    words = ("-m", f"{made}/float.onnx,{made}/bad.onnx", "-b", "local", "-i", made / given, "--gate", gate)
    status, found = run(tmp_path, *words)
    assert (status, found["broken"], found["rungs"][0]["kind"]) == (1, "float ~ reference", "few_clipped")
    jsonschema.validate(found, triage_schema())
    first = found["losses"][0]
    assert first["tensor"] == PLANTED and first["clipped"] > 0.3 and first["high"] < first["float_high"]
    assert [s["tensors"] for s in found["what_if"]["steps"]] == [[PLANTED]] and found["what_if"]["holds"]
    assert [r["verdict"] for r in found["rungs"][1:]] == ["PASSED", "PASSED"]
    assert f"next step: recalibrate {PLANTED}" in capsys.readouterr().out
    again = run(tmp_path, *words)[1]
    for one in (again, found):  # but for the spot check, which is of another tensor
        one["timings"], one["notes"] = {}, [n for n in one["notes"] if not n.startswith("spot check: ")]
    assert again == found


def test_tensors_of_other_names_pair_by_structure(made: Path, tmp_path: Path) -> None:
    float_model(tmp_path / "other.onnx", name="other_{}")
    words = (
        "-m",
        f"{tmp_path}/other.onnx,{made}/bad.onnx",
        "-i",
        made / "x.npy",
        "--gate",
        "float~reference=cosine:0.99",
    )
    status, found = run(tmp_path, *words)
    assert status == 1 and found["losses"][0]["tensor"] == f"other_{PLANTED}" and not found["unpaired"]
    assert {row["paired_by"] for row in found["losses"]} == {"name", "structure", "suffix"}


def test_qoperator_models_pair_too(made: Path, tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantFormat

    quantized(made / "float.onnx", tmp_path / "qop.onnx", quant_format=QuantFormat.QOperator, per_channel=False)
    status, found = run(
        tmp_path, "-m", f"{made}/float.onnx,{tmp_path}/qop.onnx", "-i", made / "x.npy", "--loss", "always"
    )
    assert status == 0 and not found["unpaired"] and all(row["cosine"] > 0.99 for row in found["losses"])
    assert sum(row["weights_sqnr_db"] is not None for row in found["losses"]) == 4
    assert all(row["single"]["cosine"] > 0.999 for row in found["losses"])


def test_two_float_files_that_differ_name_the_first_node(made: Path, tmp_path: Path) -> None:
    float_model(tmp_path / "lost.onnx", bias=False)
    status, found = run(tmp_path, "-m", f"{made}/float.onnx,{tmp_path}/lost.onnx", "-i", made / "x.npy")
    rung = found["rungs"][0]
    assert (status, found["broken"], rung["first_divergence"]["tensor"]) == (1, "float ~ float2", "c2")
    assert rung["forced_failures"] == ["c2"]
    around = rung["neighbourhoods"][0]
    assert [(n["tensor"], n["mark"]) for n in around["above"]] == [("r1", "agree")]
    assert [(n["tensor"], n["mark"]) for n in around["below"]] == [("r2", "differ")]


def test_a_float_model_of_any_batch_takes_the_dims_of_the_quantized_one(made: Path, tmp_path: Path) -> None:
    model = onnx.load(made / "float.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, tmp_path / "dynamic.onnx")
    words = ("-m", f"{tmp_path}/dynamic.onnx,{made}/bad.onnx", "-i", made / "x.npy", "--loss", "always")
    status, found = run(tmp_path, *words)
    assert status == 1 and found["losses"][0]["tensor"] == PLANTED


def test_stripped_ends_and_bytes_of_pictures_reach_the_float_model(made: Path, tmp_path: Path) -> None:
    quant, binary = made / "bad.onnx", tmp_path / "model.bin"
    given = {"--strip-io-quant": [], "--input": ["x=rgb,train=rgb,mean=127.5,scale=0.0078431373"]}
    for option, value in given.items():
        assert main(["compile", str(quant), "-o", str(binary), option, *value]) == 0
        words = ("-m", f"{made}/float.onnx,{quant},{binary}", "-b", "local", "--loss", "always")
        status, found = run(tmp_path, *words)
        assert (status, found["broken"], found["rungs"][0]["kind"]) == (
            3,
            None,
            "random",
        )  # of noise, nobody is accused
        assert found["losses"][0]["tensor"] == PLANTED
        assert not found["unpaired"]


def test_a_board_that_offers_final_outputs_only(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = run(tmp_path, "-m", f"{made}/quant.onnx", "-b", "finals:local", "-i", made / "x.npy")
    assert status == 0 and found["rungs"][-1]["forced"] == 0 < found["rungs"][-1]["not_forced"]
    assert "tensors could not be recomputed" in capsys.readouterr().out


def test_stages_in_an_order_of_their_own(made: Path, tmp_path: Path) -> None:
    order = f"{made}/float.onnx,{made}/quant.onnx,{made}/bad.onnx,simulator"
    status, found = run(
        tmp_path, "--stages", order, "-i", made / "x.npy", "--gate", "fake-quantized~reference=cosine:0.99"
    )
    assert [(s["name"], s["kind"]) for s in found["stages"]] == [
        ("float", "float"), ("fake-quantized", "fake-quantized"), ("reference", "reference"), ("simulator", "simulator")
    ]  # fmt: skip
    assert (status, found["broken"]) == (1, "fake-quantized ~ reference")


def test_a_spoiled_node_of_the_board_is_drawn_and_blamed(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = f"{PLANTED}_QuantizeLinear_Output"
    board = f"faulty:local?fault=plus_one@{node}"
    status, found = run(tmp_path, "-m", f"{made}/float.onnx,{made}/quant.onnx", "-b", board, "-i", made / "x.npy")
    rung = found["rungs"][-1]
    assert (status, found["broken"], rung["kind"]) == (1, "simulator ~ board", "node")
    assert (rung["blame"]["side"], rung["blame"]["node"], rung["forced_failures"]) == ("board", node, [node])
    text = capsys.readouterr().out
    assert f"[X] {node} (conv)" in text and "┌─ = r1_QuantizeLinear_Output" in text and "~ a_QuantizeLinear" in text
    assert "board's driver or runtime" in text


def test_a_board_that_cannot_be_reached_is_inconclusive(made: Path, tmp_path: Path) -> None:
    status, found = run(tmp_path, "-m", f"{made}/quant.onnx", "-b", "ssh://127.0.0.1:1", "-i", made / "frames")
    assert (status, found["verdict"], found["broken"]) == (3, "INCONCLUSIVE", None)
    assert found["next_step"].startswith("reach the board first")


def dumped(made: Path, folder: Path) -> dict[str, np.ndarray]:
    words = ["-m", str(made / "quant.onnx"), "-i", str(made / "x.npy"), "-o", str(folder)]
    assert main(["infer", *words]) == 0
    held = json.loads((folder / "manifest.json").read_text())["tensors"]
    return {name: np.load(folder / file) for file, name in held.items()}


@pytest.mark.parametrize("lsb", [0, 1, 2])
def test_another_runtime_is_blamed_beyond_one_lsb(made: Path, tmp_path: Path, lsb: int) -> None:
    tensors, node = dumped(made, tmp_path / "dump"), "r1_QuantizeLinear_Output"
    before = int(tensors[node][0, 2, 5, 6])
    tensors[node][0, 2, 5, 6] = before + lsb if before < 128 else before - lsb
    np.savez(tmp_path / "dump.npz", **tensors)
    status, found = run(tmp_path, "-m", f"{made}/quant.onnx,{tmp_path}/dump.npz", "-i", made / "x.npy")
    rung = found["rungs"][-1]
    assert (rung["a"], rung["b"]) == ("reference", "dump")
    if lsb < 2:
        assert rung["blame"] is None and node not in rung["forced_failures"]
    else:
        assert status == 1 and (rung["blame"]["side"], rung["blame"]["node"]) == ("dump", node)


def test_what_the_application_read_is_held_to_the_last_stage(made: Path, tmp_path: Path) -> None:
    y = dumped(made, tmp_path / "dump")["y"]
    words = ("-m", f"{made}/quant.onnx", "-b", "local", "-i", made / "x.npy", "--app-output", tmp_path / "app.npz")
    for value, status, verdict in (
        (y, 0, "PASSED"), (y[:, ::-1], 1, "FAILED"), (y * np.nan, 1, "FAILED"), (y[:, :9], 3, "INCONCLUSIVE")
    ):  # fmt: skip
        np.savez(tmp_path / "app.npz", y=value)
        got, found = run(tmp_path, *words)
        assert (got, found["rungs"][-1]["verdict"]) == (status, verdict)
    np.savez(tmp_path / "app.npz", boxes=y)
    assert run(tmp_path, *words)[0] == 2


def test_what_the_application_fed_is_held_to_the_prepared_bytes(made: Path, tmp_path: Path) -> None:
    data = np.load(made / "x.npy")
    words = ("-m", f"{made}/quant.onnx", "-i", made / "x.npy", "--app-input", tmp_path / "fed.bin")
    data.tofile(tmp_path / "fed.bin")
    assert run(tmp_path, *words)[0] == 0
    data[:, ::-1].tofile(tmp_path / "fed.bin")
    status, found = run(tmp_path, *words)
    assert (status, found["broken"]) == (1, "inputs ~ application's inputs") and "inputs diff" in found["next_step"]


def test_without_a_float_model_it_says_what_is_not_known(made: Path, tmp_path: Path) -> None:
    status, found = run(tmp_path, "-m", f"{made}/quant.onnx")
    assert status == 0 and len(found["unknown"]) == 3 and found["losses"] == [] and found["what_if"] is None


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["capture"],
        ["-m", "{made}/float.onnx"],
        ["-m", "{made}/float.onnx", "-b", "local"],
        ["-m", "{made}/quant.onnx", "-s", "False"],
        ["-m", "{made}/quant.onnx", "--gate", "float~reference=exact"],
        ["-m", "{made}/quant.onnx", "--gate", "reference~simulator=close"],
        ["-m", "{made}/quant.onnx", "--stages", "{made}/quant.onnx,board"],
        ["--stages", "{made}/quant.onnx,{made}/float.onnx,simulator"],
        ["-m", "{made}/missing.onnx"],
        ["-m", "{made}/float.onnx,"],
        ["-m", "{made}/quant.onnx", "-i", "{made}/frames", "--app-output", "{made}/x.npy"],
    ],
)
def test_a_mistake_is_one_line(made: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triage", *(w.format(made=made) for w in words)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("qverify: ") and error.count("\n") == 1


@pytest.mark.parametrize(
    "text", ["a~b", "a~b=", "ab=exact", "a~b=exact:1", "a~b=decimals", "a~b=decimals:1.5", "a~b=cosine:2"]
)
def test_gates_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--gate"):
        parse_gate(text)


def test_outputs_fail_closed() -> None:
    one = {"y": (np.ones((2, 3), np.float32), real_spec("y", np.ones((2, 3), np.float32)))}
    nan = {"y": (np.full((2, 3), np.nan, np.float32), one["y"][1])}
    for other, verdict in ((one, "PASSED"), (nan, "FAILED"), ({}, "INCONCLUSIVE")):
        found = Outputs("a", "b", RungGate("cosine", 0.5), {"y": "y"})
        found.add(one, other)
        assert found.rung().verdict == verdict
    both = Outputs("a", "b", RungGate("cosine", 0.5), {"y": "y"})
    both.add(nan, nan)
    assert both.rung().verdict != "PASSED"
    assert Outputs("a", "b", RungGate("exact"), {}).rung().verdict == "INCONCLUSIVE"


STEP = OutputStep.of(TensorSpec("y", "uint8", (1,), scale=(0.01,), zero_point=(0,)))


def rung_of(gate: RungGate, **outputs: tuple[np.ndarray, np.ndarray]) -> Any:
    """The rung of outputs given as (float, quantized), each of a step of 0.01, in two frames of half of the elements."""
    found = Outputs("float", "reference", gate, {n: n for n in outputs}, steps={n: STEP for n in outputs})
    for half in (0, 1):
        parts = [{n: np.float32(np.array_split(v[side], 2)[half]) for n, v in outputs.items()} for side in (0, 1)]
        found.add(*({n: (v, real_spec(n, v)) for n, v in part.items()} for part in parts))
    return found.rung()


COSINE = RungGate("cosine", 0.7)
LOUD = (np.linspace(0, 2.5, 40), np.linspace(0, 2.5, 40) + 0.004)
QUIET = (np.linspace(0, 0.003, 40), np.zeros(40))
SPARSE = (np.append(np.full(9999, 0.0049), 0.3), np.append(np.zeros(9999), 0.3))  # a cosine of 0.5


@pytest.mark.parametrize(
    ("floats", "quantized", "judged", "verdict", "kind"),
    [
        (*LOUD, "gate", "PASSED", ""),
        (*QUIET, "quiet", "INCONCLUSIVE", "quiet"),
        (np.zeros(40), np.zeros(40), "quiet", "INCONCLUSIVE", "quiet"),
        (np.full(40, 0.004), np.full(40, 0.01), "quiet", "INCONCLUSIVE", "quiet"),  # a cosine of 1 tells nothing of it
        (QUIET[0], np.full(40, 0.2), "too_small", "INCONCLUSIVE", "too_small"),
        (QUIET[0], np.full(40, 0.4), "gate", "FAILED", "outputs"),
        (np.full(40, 0.004), np.full(40, 0.4), "gate", "FAILED", "outputs"),
        (*SPARSE, "near", "PASSED", ""),
        (np.full(40, 0.012), np.zeros(40), "gate", "FAILED", "outputs"),
        (np.append(np.full(39, 0.004), 0.012), np.append(np.zeros(39), 0.01), "too_small", "INCONCLUSIVE", "too_small"),
        (LOUD[0], np.zeros(40), "gate", "FAILED", "outputs"),
        (QUIET[0], np.full(40, np.nan), "gate", "FAILED", "outputs"),
    ],
)
def test_an_output_is_judged_in_steps_of_its_own_scale(
    floats: np.ndarray, quantized: np.ndarray, judged: str, verdict: str, kind: str
) -> None:
    rung = rung_of(COSINE, y=(floats, quantized))
    assert (rung.outputs[0].judged, rung.verdict, rung.kind) == (judged, verdict, kind)
    assert rung.outputs[0].holds == (verdict == "PASSED")


def test_a_quiet_output_gates_nothing_and_is_said() -> None:
    rung = rung_of(COSINE, y=LOUD, z=QUIET)
    assert rung.verdict == "PASSED"
    assert rung.evidence == [
        "quiet on this input, not judged: z: its largest value is 0.6 of half a step (0.003 of 0.01)"
    ]
    assert rung_of(COSINE, y=(LOUD[0], -LOUD[1]), z=QUIET).verdict == "FAILED"
    assert rung_of(RungGate("decimals", 5), y=(LOUD[0], LOUD[0]), z=QUIET).verdict == "FAILED"  # an absolute gate
    assert rung_of(COSINE, y=(np.full(4, np.nan), np.full(4, np.nan)), z=QUIET).verdict != "PASSED"


@pytest.mark.parametrize("given", ["x.npy", "frames"])
def test_a_scale_that_is_far_too_large_never_holds(
    made: Path, tmp_path: Path, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load(made / "quant.onnx")
    for held in model.graph.initializer:
        if held.name == "y_scale":
            held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held) * np.float32(1000), held.name))
    onnx.save(model, tmp_path / "large.onnx")
    status, found = run(tmp_path, "-m", f"{made}/float.onnx,{tmp_path}/large.onnx", "-i", made / given)
    jsonschema.validate(found, triage_schema())
    assert (status, found["verdict"], found["rungs"][0]["kind"]) == (3, "INCONCLUSIVE", "quiet")
    assert [(q["tensor"], q["output"]) for q in found["quiet"]] == [("y", True)]
    said = capsys.readouterr().out
    assert "every final output is quiet on this input: y: its largest value is" in said
    assert "y (final output): never above half a step" in said and "its scale is too large" in found["next_step"]


def test_frames_are_taken_where_outputs_are_loud() -> None:
    quiet, loud = {"a": 5.0, "b": 0.2, "c": 0.1}, {"a": 0.0, "b": 3.0, "c": 0.1}
    assert loudest_frames([quiet, quiet, quiet, loud, loud], 2) == [0, 3]
    assert loudest_frames([quiet, quiet, quiet, loud, loud], 1) == [0]
    assert loudest_frames([quiet] * 5, 3) == [0, 1, 2] and loudest_frames([{}] * 3, 2) == [0, 1]
