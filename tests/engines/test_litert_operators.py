"""A .tflite whose operators have no converter: LiteRT against LiteRT, each operator recomputed by itself."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.kernel_sets import accept_kernel_sets, judge_by_kernels
from qverify.engines import QVRT, ChosenSide
from qverify.errors import UsageError
from qverify.model_bin.units import Unit
from qverify.report.document import Forced
from qverify.session import chosen_sides
from qverify.session.models import open_models
from qverify.session.open_board import open_board
from qverify.sides.operator_graph import tensor_names
from qverify.tflite_model import convert
from qverify.tflite_model.read_tflite import read_tflite

from tests.spoiled_litert import SPOILS
from tests.tflite_files import File, schema

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "tflite"


@pytest.fixture
def no_converters(monkeypatch):
    """No operator can be converted."""
    monkeypatch.setattr(convert, "CONVERTERS", {})


def three_convolutions(weights: list[np.ndarray] | None = None) -> bytes:
    """Returns a network of three CONV_2D with names that contain a slash. weights: list that receives those of the second."""
    rng, f = np.random.default_rng(0), File()
    x = f.tensor("net/x", [1, 17, 17, 4], "int8", 0.04, 3)
    f.inputs, at = [x], x
    for k in range(3):
        w = rng.integers(-127, 128, (4, 3, 3, 4)).astype(np.int8)
        if k == 1 and weights is not None:
            weights.append(w)
        steps = rng.uniform(0.002, 0.01, 4).astype(np.float32)
        weight = f.tensor(f"net/w{k}", [4, 3, 3, 4], "int8", steps, 0, w)
        bias = f.tensor(f"net/b{k}", [4], "int32", np.float32(0.04) * steps, 0, rng.integers(-400, 400, 4))
        y = f.tensor(f"net/conv{k}", [1, 17, 17, 4], "int8", 0.04, 3)
        f.operator("CONV_2D", [at, weight, bias], [y], "Conv2DOptions", strideH=1, strideW=1, dilationHFactor=1,
                   dilationWFactor=1, padding=0, fusedActivationFunction=0)  # fmt: skip
        at = y
    f.outputs = [at]
    return f.written()


def verify(path: Path, tmp_path: Path, board: str = "local?runtime=litert", *words: str) -> tuple[int, dict]:
    """Returns exit status and report of the main job, every tensor compared."""
    report = tmp_path / "report.json"
    status = main(["-m", str(path), "-b", board, "-r", "True", "-q", "--json", str(report), *words])
    return status, json.loads(report.read_text())


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kernels", ["reference", "optimized", "xnnpack"])
def test_kernels_of_litert_pass_with_their_own_rounding(kernels, tmp_path, no_converters):
    path = written(tmp_path, three_convolutions())
    status, report = verify(path, tmp_path, f"local?runtime=litert&kernels={kernels}")
    (pair,) = report["pairs"]
    assert (status, pair["a"], pair["b"], pair["verdict"]) == (0, "reference", "board", "PASSED")
    assert [t["name"] for t in pair["tensors"]] == ["net/conv0", "net/conv1", "net/conv2"]
    forced = [t["forced"] for t in pair["tensors"]]
    assert all(f["verdict"] == "PASSED" for f in forced)
    differing = [f for f in forced if f["mismatched"]]
    assert bool(differing) == (kernels != "reference") == (not pair["bit_equal"])
    own = {"optimized": "LiteRT's default kernels", "xnnpack": "XNNPACK"}.get(kernels)
    assert all(f["limit"] == f"every byte is that of {own}" for f in differing)
    (simulator,) = [n for n in report["not_run"] if n["side"] == "simulator"]
    assert simulator["why"] == "no side here, the file does not convert: CONV_2D: no converter for it (3 operators)"


def test_an_altered_weight_is_found_at_its_operator(tmp_path, no_converters):
    weights: list[np.ndarray] = []
    path = written(tmp_path, three_convolutions(weights))
    (tmp_path / "weights").write_bytes(weights[0].tobytes()[:8])
    (tmp_path / "spoils.py").write_text(SPOILS.replace("{weights}", str(tmp_path / "weights")))
    python = f"{sys.executable} {tmp_path / 'spoils.py'}".replace(" ", "%20")
    status, report = verify(path, tmp_path, f"local?runtime=litert&python={python}")
    assert (status, report["blame"]["side"], report["blame"]["node"]) == (1, "board", "net/conv1")
    assert report["blame"]["also"] == []
    assert "no kernels of LiteRT on this host give every byte" in report["blame"]["why"]
    assert "compiler" not in report["blame"]["why"]


def test_dumps_are_compared_by_names_with_underscores_and_a_changed_one_is_located(tmp_path, no_converters, capsys):
    path = written(tmp_path, three_convolutions())
    dump, renamed = tmp_path / "dump", tmp_path / "renamed"
    assert main(["infer", "-m", str(path), "--side", "reference", "-o", str(dump)]) == 0
    renamed.mkdir()
    for file in dump.glob("*.npy"):
        shutil.copy(file, renamed / file.name)
    assert {f.name for f in renamed.iterdir()} == {f"net_conv{k}.npy" for k in range(3)}
    compare = ["compare", str(dump), str(renamed), "-m", str(path)]
    assert main(compare) == 0
    value = np.load(renamed / "net_conv1.npy")
    value[0, 3, 3, 2] ^= 3
    np.save(renamed / "net_conv1.npy", value)
    capsys.readouterr()
    assert main(compare) == 1
    assert "blame: B at net/conv1" in capsys.readouterr().out


def test_a_capture_is_judged_again(tmp_path, no_converters, capsys):
    path = written(tmp_path, three_convolutions())
    status, _ = verify(path, tmp_path, "local?runtime=litert&kernels=xnnpack", "--capture", str(tmp_path / "capture"))
    assert status == 0
    path.unlink()
    assert main(["replay", str(tmp_path / "capture")]) == 0
    assert "not bit-equal" in capsys.readouterr().out


def test_without_a_runtime_that_runs_it_the_next_step_is_named(tmp_path, no_converters, capsys):
    path = written(tmp_path, three_convolutions())
    assert main(["-m", str(path), "-b", "local", "-r", "True"]) == 2
    assert "Next: -m m.tflite --runtime litert -b BOARD, which needs no converter" in capsys.readouterr().err


def test_outputs_in_another_order_than_they_are_computed(tmp_path, no_converters):
    f = File()
    axis = f.tensor("axis", [], "int32", None, value=np.array(1))
    x, parts = f.tensor("x", [1, 6]), [f.tensor(f"part{k}", [1, 2]) for k in range(3)]
    f.operator("SPLIT", [axis, x], parts, "SplitOptions", numSplits=3)
    f.inputs, f.outputs = [x], [parts[2], parts[0], parts[1]]
    status, report = verify(written(tmp_path, f.written()), tmp_path)
    assert (status, report["pairs"][0]["coverage"]["compared"], report["pairs"][0]["bit_equal"]) == (0, 3, True)


def test_where_the_reference_kernels_lack_an_operator_the_default_ones_are_the_reference(tmp_path, no_converters):
    f = File()
    x, y = (f.tensor(n, [1, 64], "float32", None) for n in "xy")
    f.operator("ELU", [x], [y])
    f.inputs, f.outputs = [x], [y]
    status, report = verify(written(tmp_path, f.written()), tmp_path)
    assert status == 0 and report["pairs"][0]["bit_equal"]
    assert any(
        "the reference is LiteRT's default kernels, since its reference kernels refuse" in n for n in report["notes"]
    )


def test_a_tensor_whose_shape_is_known_only_after_a_run(tmp_path):
    f = File()
    x, y = f.tensor("x", [32], "bool", None), f.tensor("y", [1, 1], "int64", None)
    f.operator("WHERE", [x], [y])
    f.inputs, f.outputs = [x], [y]
    path = written(tmp_path, f.written())
    status, report = verify(path, tmp_path)
    assert (status, report["pairs"][0]["tensors"][0]["shape"][1]) == (0, 1)
    np.save(tmp_path / "x.npy", np.ones(32, bool))
    status, report = verify(path, tmp_path, "local?runtime=litert", "-i", str(tmp_path / "x.npy"))
    assert (status, report["pairs"][0]["verdict"]) == (3, "INCONCLUSIVE")  # no shape of the random run


def two_signatures() -> bytes:
    import flatbuffers

    s, models = schema(), []
    for scale in (0.5, 0.25):
        f = File()
        x, y = f.tensor(f"x{scale}", [1, 8]), f.tensor(f"y{scale}", [1, 8], scale=scale)
        f.operator("ADD", [x, x], [y], "AddOptions")
        f.inputs, f.outputs = [x], [y]
        models.append(s.ModelT.InitFromObj(s.Model.GetRootAs(f.written(), 0)))
    model = models[0]
    model.subgraphs.append(models[1].subgraphs[0])
    model.signatureDefs = []
    for k, name in enumerate(("first", "second")):
        signature = s.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex, signature.inputs, signature.outputs = name.encode(), k, [], []
        model.signatureDefs.append(signature)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize(("name", "tensor", "other"), [("", "y0.5", "second"), ("second", "y0.25", "first")])
@pytest.mark.parametrize("converted", [True, False])
def test_one_of_several_signatures_is_verified_and_the_others_are_named(
    name, tensor, other, converted, tmp_path, monkeypatch
):
    if not converted:
        monkeypatch.setattr(convert, "CONVERTERS", {})
    path = written(tmp_path, two_signatures())
    words = ["--signature", name] if name else []
    status, report = verify(path, tmp_path, "local?runtime=litert", *words)
    assert status == 0
    assert {t["name"] for p in report["pairs"] for t in p["tensors"]} == {tensor}
    assert f"signature {name or 'first'} alone; not verified: {other} (--signature NAME)" in report["caveats"]


def test_a_signature_that_is_not_there_is_refused(tmp_path, capsys):
    path = written(tmp_path, two_signatures())
    assert main(["-m", str(path), "-b", "local", "--signature", "third"]) == 2
    assert "--signature third: m.tflite has no such signature; it has: first, second" in capsys.readouterr().err


def _unit(name: str, op: str = "CONV_2D") -> Unit:
    return Unit(name, op, (), (), (name,), True)


def _judged(names: list[str], apart: int = 3, here: bool = True) -> Forced:
    made = np.zeros(8, np.int8)
    recorded = made.copy()
    recorded[0] = apart
    measured = Forced("FAILED", apart, 1, float(apart), 8, "bit equality", "reference", "board")
    return judge_by_kernels(measured, "CONV_2D", made, recorded, names, here, True)


def test_one_set_of_kernels_must_give_every_operator_of_a_kind():
    units = [_unit(n) for n in "abc"] + [_unit("d", "ADD")]
    equal = Forced("PASSED", 0, 0, 0.0, 8)
    giving = {"a": ["X", "Y"], "b": ["Y"], "d": ["X"]}
    forced = {n: equal if n == "c" else _judged(giving[n]) for n in "abcd"}
    accept_kernel_sets(units, forced, giving, lambda unit, name: True, False)
    assert [forced[n].verdict for n in "abcd"] == ["PASSED"] * 4
    assert forced["a"].limit == forced["b"].limit == "every byte is that of Y"
    giving = {"a": ["X"], "b": ["Y"], "d": ["X"]}
    forced = {n: equal if n == "c" else _judged(giving[n]) for n in "abcd"}
    accept_kernel_sets(units, forced, giving, lambda unit, name: True, False)
    assert [forced[n].verdict for n in "abcd"] == ["FAILED", "FAILED", "PASSED", "PASSED"]
    giving = {"a": ["X"], "b": []}
    forced = {n: _judged(giving[n]) if n in giving else equal for n in "abcd"}
    accept_kernel_sets(units, forced, giving, lambda unit, name: unit.name != "c", False)  # X gives other bytes of c
    assert [forced[n].verdict for n in "ab"] == ["FAILED", "FAILED"]
    forced = {n: _judged(giving[n]) if n in giving else equal for n in "abcd"}
    accept_kernel_sets(units, forced, giving, lambda unit, name: True, False)  # b is a finding by itself
    assert [forced[n].verdict for n in "ab"] == ["PASSED", "FAILED"]


@pytest.mark.parametrize(
    ("apart", "here", "verdict"), [(1, True, "FAILED"), (1, False, "INCONCLUSIVE"), (2, False, "FAILED")]
)
def test_what_no_kernels_give_is_never_passed(apart, here, verdict):
    forced = {"a": _judged([], apart, here)}
    accept_kernel_sets([_unit("a")], forced, {"a": []}, lambda unit, name: True, False)
    assert forced["a"].verdict == verdict


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("c1d__16x8", 0), ("cnn__f16", 0), ("ctrl__int8mix", 0), ("gnorm__aeq_a8w8", 0), ("loop__int8mix", 0),
        ("mww__vad", 0), ("tflm__trained_lstm_int8", 0), ("tflm__transpose_conv4", 0), ("mnist__aeq_w2", 3),
    ],
)  # fmt: skip
def test_files_of_the_world(name, status, tmp_path):
    """LiteRT reads weights of two bits beyond their end (mnist__aeq_w2), and so gives other values in each cut."""
    path = SHARED / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    found, report = verify(path, tmp_path)
    assert (found, report["blame"]) == (status, None)


def test_triage_compares_the_board_with_the_reference(tmp_path, no_converters, capsys):
    path = written(tmp_path, three_convolutions())
    assert main(["triage", "-m", str(path), "-b", "local?runtime=litert&kernels=xnnpack"]) == 0
    said = capsys.readouterr().out
    assert "TRIAGE: the gate passes (reference ~ board: " in said and "note: simulator: no side here" in said


RUNNER = """
import sys
import numpy as np
from ai_edge_litert import interpreter

model, out, *inputs = sys.argv[1:]
opened = interpreter.Interpreter(model, experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF,
                                 experimental_preserve_all_tensors=True)
opened.allocate_tensors()
for detail, path in zip(opened.get_input_details(), inputs):
    opened.set_tensor(detail["index"], np.load(path))
opened.invoke()
details = {d["index"]: d["name"] for d in opened.get_tensor_details()}
for operator in opened._get_ops_details():
    for index in operator["outputs"]:
        value = opened.get_tensor(int(index))
        value.reshape(-1)[:1] ^= CHANGED if details[index] == "net/conv1" else 0
        np.save(f"{out}/{details[index].replace('/', '_')}.npy", value)
"""


@pytest.mark.parametrize(("changed", "status"), [(0, 0), (5, 1)])
def test_a_runner_whose_files_have_underscores(changed, status, tmp_path, no_converters):
    path = written(tmp_path, three_convolutions())
    (tmp_path / "run.py").write_text(RUNNER.replace("CHANGED", str(changed)))
    runner = f"{sys.executable} {tmp_path / 'run.py'} {{model}} {{out}} {{npys}}"
    found, report = verify(path, tmp_path, "local", "--runner", runner)
    assert (found, report["pairs"][0]["coverage"]["compared"]) == (status, 3)
    assert (report["blame"] or {}).get("node") == ("net/conv1" if changed else None)


def test_tensors_of_one_name_are_not_taken_for_each_other():
    f = File()
    x, a, b = f.tensor("x", [1, 8]), f.tensor("y;z", [1, 8]), f.tensor("y;w", [1, 8])
    f.operator("ADD", [x, x], [a], "AddOptions")
    f.operator("ADD", [a, x], [b], "AddOptions")
    f.inputs, f.outputs = [x], [b]
    assert tensor_names(read_tflite(f.written(), "m.tflite")) == {0: "x", 1: "y@1", 2: "y@2"}


def test_an_engine_on_this_host_is_run_by_this_interpreter_if_it_has_the_package(monkeypatch):
    for found, python in ((object(), sys.executable), (None, None)):
        monkeypatch.setattr(chosen_sides, "find_spec", lambda name, found=found: found)
        page = chosen_sides.choose_board("local", (("runtime", "tflm"),)).page
        assert page.options.get("python", (None,)) == (python,)
    monkeypatch.setattr(chosen_sides, "find_spec", lambda name: object())
    assert "python" not in chosen_sides.choose_board("10.0.0.5", (("runtime", "tflm"),)).page.options
    named = chosen_sides.choose_board("local", (("runtime", "tflm"), ("python", "other"))).page
    assert named.options["python"] == ("other",)


def test_models_opened_for_litert_do_not_run_on_qvrt(tmp_path, no_converters):
    models = open_models([str(written(tmp_path, three_convolutions()))], operators=True)
    with pytest.raises(
        UsageError, match=r"m\.tflite: no side here, the file does not convert: .* add --runtime litert"
    ):
        open_board(models, ChosenSide("board", QVRT, "local"), 60.0)


def test_every_frame_starts_from_the_state_of_the_file(tmp_path, capsys):
    path = SHARED / "mww__vad.tflite"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    (tmp_path / "frames").mkdir()
    for k in range(2):
        np.save(tmp_path / f"frames/{k}.npy", np.random.default_rng(k).integers(-128, 128, (1, 3, 40)).astype(np.int8))
    assert main(["-m", str(path), "-b", "local?runtime=litert", "-r", "True", "-i", str(tmp_path / "frames")]) == 0
    assert "PASSED (2 frames; " in capsys.readouterr().out


def layer_of_blocks(activation: int = 1) -> bytes:
    """Returns a FULLY_CONNECTED of floats with a fused RELU whose int4 weights have a scale for each 32 inputs."""
    rng, f = np.random.default_rng(4), File()
    x = f.tensor("x", [1, 64], "float32", None)
    scales = f.tensor(
        "scales", [16, 2], "float16", None, 0, (rng.integers(16, 128, (16, 2)) / 1024).astype(np.float16)
    )  # bfloat16, too: XNNPACK rounds to it
    w = f.tensor("w", [16, 64], "int4", None, 0, rng.integers(-7, 8, (16, 64)))
    module = schema()
    about, blocks = module.QuantizationParametersT(), module.BlockwiseQuantizationT()
    blocks.scales, blocks.zeroPoints, blocks.blockSize = scales, -1, 32
    about.detailsType, about.details = module.QuantizationDetails.BlockwiseQuantization, blocks
    f.tensors[w].quantization = about
    b = f.tensor("b", [16], "float32", None, 0, rng.normal(0, 1, 16).astype(np.float32))
    y = f.tensor("y", [1, 16], "float32", None)
    f.operator("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions", fusedActivationFunction=activation)
    f.inputs, f.outputs = [x], [y]
    return f.written()


@pytest.mark.parametrize(("kernels", "status"), [("reference", 1), ("optimized", 1), ("xnnpack", 0)])
def test_only_kernels_that_compute_weights_in_blocks_pass(kernels, status, tmp_path, no_converters):
    """LiteRT's reference kernels ignore the scales, its default ones the activation: neither acquits the other."""
    path = written(tmp_path, layer_of_blocks())
    found, report = verify(path, tmp_path, f"local?runtime=litert&kernels={kernels}")
    assert found == status
    (row,) = report["pairs"][0]["tensors"]
    assert row["forced"]["verdict"] == ("FAILED" if status else "PASSED")
    assert status or "255 steps" in row["forced"]["limit"]


def run_by(text: str, path: Path, tmp_path: Path) -> tuple[int, dict]:
    """Returns exit status and report of a runner of this text."""
    (tmp_path / "run.py").write_text(text)
    return verify(
        path, tmp_path, "local", "--runner", f"{sys.executable} {tmp_path / 'run.py'} {{model}} {{out}} {{npys}}"
    )


@pytest.mark.parametrize(("changed", "status"), [(0, 0), (1, 1)])
def test_a_runner_with_the_bytes_of_one_set_of_kernels_is_judged_node_by_node(changed, status, tmp_path):
    """The default kernels round otherwise than the reference, and after three layers by more than a tie."""
    path = written(tmp_path, three_convolutions())
    text = RUNNER.replace("CHANGED", str(changed)).replace("BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
    found, report = run_by(text, path, tmp_path)
    pairs = [p for p in report["pairs"] if p["b"] == "board"]
    assert len(pairs) == 2
    assert found == status
    assert all((p["node_by_node"] or {}).get("tensors", 0) > 0 for p in pairs) or changed
    assert not any(p["bit_equal"] for p in pairs)


@pytest.mark.parametrize(
    ("op", "share", "both", "verdict"),
    [
        ("MUL", 1.0, False, "FAILED"),  # a wrong zero point
        ("MEAN", 0.5, False, "FAILED"),  # of 8 elements, rounded down
        ("MUL", 0.5, False, "INCONCLUSIVE"),  # may all be ties
        ("MUL", 1.0, True, "INCONCLUSIVE"),
        ("STABLEHLO_COMPOSITE", 1.0, False, "INCONCLUSIVE"),  # rounds many times
    ],
)
def test_differences_in_one_direction_are_no_rounding(op, share, both, verdict):
    rng = np.random.default_rng(5)
    made = rng.integers(-100, 100, 256).astype(np.int8)
    step = (np.arange(256) < 256 * share).astype(np.int8)
    recorded = made - step * (np.where(np.arange(256) % 2, 1, -1).astype(np.int8) if both else np.int8(1))
    measured = _judged([], 1, here=False)
    found = judge_by_kernels(measured, op, made, recorded, [], False, True, 256 * 8)
    assert found.verdict == verdict
    assert ("one direction" in found.why) == (verdict == "FAILED")


def renamed(data: bytes, names: dict[str, str]) -> bytes:
    """Returns the file with tensors called otherwise."""
    for old, new in names.items():
        assert len(old) == len(new) and data.count(old.encode()) == 1
        data = data.replace(old.encode(), new.encode())
    return data


NAMES = {"net/conv0": "a;add;b/c", "net/conv1": "a;add;d/e"}  # of which the graph has the first part


@pytest.mark.parametrize(("changed", "status"), [(0, 0), (5, 1)])
def test_a_runner_writes_the_names_and_axes_of_the_file(changed, status, tmp_path):
    path = written(tmp_path, renamed(three_convolutions(), NAMES))
    text = RUNNER.replace("CHANGED", str(changed)).replace("net/conv1", "a;add;d/e")
    found, report = run_by(text, path, tmp_path)
    pair = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "board"))
    assert (found, pair["coverage"]["compared"], pair["coverage"]["missing"]) == (status, 3, [])
    assert [t["name"] for t in pair["tensors"]] == ["a", "a@6", "net/conv2"]
    assert (report["blame"] or {}).get("node") == ("a@6" if changed else None)


def test_a_name_of_two_tensors_is_said_and_a_number_settles_it(tmp_path):
    path = written(tmp_path, renamed(three_convolutions(), NAMES))
    text = RUNNER.replace("CHANGED", "0")
    short = text.replace("details[index].replace(", "details[index].partition(';')[0].replace(")
    numbered = short.replace("'_')}.npy", "'_')}@{index}.npy")
    assert text != short != numbered
    found, report = run_by(numbered, path, tmp_path)
    pair = next(p for p in report["pairs"] if p["b"] == "board")
    assert (found, pair["coverage"]["compared"]) == (0, 3)
    found, report = run_by(short, path, tmp_path)
    missing = str(next(p for p in report["pairs"] if p["b"] == "board")["coverage"]["missing"])
    assert found == 3
    assert "a: the name of tensors 3 (a;add;b/c) and 6 (a;add;d/e) of the file; wanted NAME@INDEX" in missing


@pytest.mark.parametrize("reads", [False, True])
def test_a_runner_written_for_nchw_is_told_what_to_do(reads, tmp_path):
    path = written(tmp_path, three_convolutions())
    text = RUNNER.replace("CHANGED", "0")
    moved = "np.moveaxis(np.load(path), 1, -1)"
    text = text.replace("np.load(path)", moved) if reads else text.replace("np.save(f", "value = np.moveaxis(value, -1, 1)\n        np.save(f")  # fmt: skip
    found, report = run_by(text, path, tmp_path)
    assert found == 3
    why = str(report["pairs"])
    assert ("as the .tflite has them (NHWC): net/x [1, 17, 17, 4]" if reads else "writes its tensors, as the file has them (NHWC)") in why  # fmt: skip
