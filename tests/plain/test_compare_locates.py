"""`qverify compare -m` recomputes the nodes of two dumps from their own tensors, and locates what differs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare import two_dumps
from qverify.compare.catalogue import describe
from qverify.compare.options import Options
from qverify.compare.two_dumps import HostUnits, locate
from qverify.compare.verdict import judge_all
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.units import Unit, units
from qverify.onnx_model.dequantized_names import DEQUANTIZED, QUANTIZED
from qverify.report.document import Pair
from qverify.report.facts import FusedRegion
from qverify.session.host_sides import HostSides
from qverify.session.models import Models, open_models
from qverify.session.offline.locate_dumps import state_of_an_onnx
from qverify.session.other_jobs.demo import write_example
from qverify.session.stated_arithmetics import open_arithmetic
from qverify.tensors.recording import Array, Recording

from tests.ops.qdq import Qdq
from tests.tflite_files import File

MODEL = "digits_quant.onnx"
ORDER = ["image", "relu1", "pool1", "relu2", "flat", "logits", "prob"]
QUANT = [name + QUANTIZED for name in ORDER]
RELU1, RELU2, LOGITS, SOFTMAX = (QUANT[at] for at in (1, 3, 5, 6))
Change = Callable[[Array], Array]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Array]:
    """The tensors of the reference, which are also in the folder `host`; the example is in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_example(".")
    assert main(["infer", "-m", MODEL, "-o", "host", "--side", "reference"]) == 0
    names = json.loads(Path("host/manifest.json").read_text())["tensors"]
    return {name: np.load(f"host/{file}") for file, name in names.items()}


def board(host: dict[str, Array], changes: dict[str, Change], models: Models | None = None) -> dict[str, Array]:
    """Returns the tensors of a board that computes like the reference, or the simulator of `models`, but for some nodes."""
    models = models or open_models([MODEL])
    run, made = HostSides(models).run_units(True)["simulator"], {QUANT[0]: host[QUANT[0]]}
    for unit in units(models.graph)[1:]:
        for name, value in run(unit, {n: made[n] for n in unit.inputs}).items():
            made[name] = changes[name](value) if name in changes else value
    return made


def plus(steps: int) -> Change:
    return lambda value: np.clip(value.astype(int) + steps, *(lambda i: (i.min, i.max))(np.iinfo(value.dtype))).astype(
        value.dtype
    )


def save(tensors: dict[str, Array], path: str = "b.npz", leave_out: tuple[str, ...] = ()) -> str:
    np.savez(path, **{n: v for n, v in tensors.items() if n not in leave_out})
    return path


def compare(a: str, b: str, *options: str, model: bool = True) -> dict:
    main(["compare", "-q", a, b, *(["-m", MODEL] if model else []), "--json", "report.json", *options])
    return json.loads(Path("report.json").read_text())


def blamed(report: dict) -> list[tuple[str, str]]:
    return [(blame["side"], blame["node"]) for blame in report["blamed"]]


@pytest.mark.parametrize("node", [RELU1, RELU2, LOGITS, SOFTMAX])
def test_the_dump_that_is_wrong_is_blamed_at_its_node(host: dict[str, Array], node: str) -> None:
    path = save(board(host, {node: plus(3)}))
    report = compare("host", path)
    pair = report["pairs"][0]
    assert blamed(report) == [("B", node)] and pair["cause"] == "node"
    assert pair["first_divergence"]["tensor"] == node
    assert "given B's recorded inputs" in report["blame"]["why"]
    forced = {row["name"]: row["forced"] for row in pair["tensors"]}
    assert {name for name, f in forced.items() if f["verdict"] == "FAILED"} == {node}
    assert {f["verdict"] for name, f in forced.items() if name != node} == {"PASSED"}
    assert blamed(compare(path, "host")) == [("A", node)]


def test_rows_are_in_the_order_of_the_network(host: dict[str, Array]) -> None:
    tensors = board(host, {LOGITS: plus(3)})
    backwards = dict(reversed(tensors.items()))
    rows = compare(save(backwards, "a.npz"), save(host))["pairs"][0]["tensors"]
    assert [row["name"] for row in rows] == [*QUANT, "prob"]
    assert [row["op"] for row in rows][-3:] == ["fully_connected", "softmax", "dequantize"]


def test_without_a_model_nothing_is_recomputed(host: dict[str, Array]) -> None:
    report = compare("host", save(board(host, {RELU2: plus(3)})), model=False)
    assert report["blame"] is None and report["pairs"][0]["cause"] == "unlocated"
    assert all(row["forced"] is None for row in report["pairs"][0]["tensors"])


def test_both_dumps_may_be_wrong(host: dict[str, Array]) -> None:
    a, b = save(board(host, {LOGITS: plus(3)}), "a.npz"), save(board(host, {RELU1: plus(-3)}))
    assert blamed(compare(a, b)) == [("B", RELU1), ("A", LOGITS)]


def test_channels_that_are_wrong_are_named(host: dict[str, Array]) -> None:
    def in_two(value: Array) -> Array:
        changed = value.copy()
        changed[:, [1, 4]] = plus(5)(value[:, [1, 4]])
        return changed

    report = compare("host", save(board(host, {RELU1: in_two})))
    assert blamed(report) == [("B", RELU1)]
    channels = host[RELU1].shape[1]
    assert f"all in 2 of {channels} channels: 1, 4" in report["blame"]["why"]


def test_what_a_dump_fuses_is_blamed_as_a_region(host: dict[str, Array]) -> None:
    path = save(board(host, {RELU2: plus(20)}), leave_out=(RELU2,))
    report = compare(save(host, "a.npz", leave_out=(RELU2,)), path)
    assert report["pairs"][0]["cause"] == "region"
    region = report["blame"]["region"]
    assert report["blame"]["side"] == "B" and region["inputs"] == [QUANT[2]] and region["outputs"] == [QUANT[4]]


def test_what_one_dump_lacks_does_not_hide_its_fault(host: dict[str, Array]) -> None:
    report = compare("host", save(board(host, {RELU2: plus(20)}), leave_out=(RELU2,)))
    assert report["pairs"][0]["cause"] == "region"
    assert (report["blame"]["side"], report["blame"]["region"]["outputs"]) == ("B", [QUANT[4]])
    assert FusedRegion(**report["blame"]["region"]).place.endswith(", not separate in B")


def test_what_both_sides_of_this_host_compute_alike_is_judged_once(
    host: dict[str, Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged, real = list[tuple[str, str]](), two_dumps._DumpForcing._judge

    def judge(self: Any, unit: Unit, name: str, computed: Mapping[str, Array]) -> Any:
        judged.append((self.judged.pair.b, name))
        return real(self, unit, name, computed)

    monkeypatch.setattr(two_dumps._DumpForcing, "_judge", judge)
    assert blamed(compare("host", save(board(host, {LOGITS: plus(3)})))) == [("B", LOGITS)]
    assert {name for _, name in judged} >= {RELU1, RELU2, LOGITS} and len(judged) == len(set(judged))


def test_a_dump_of_final_outputs_only_is_not_located(host: dict[str, Array]) -> None:
    wrong = board(host, {LOGITS: lambda value: value[:, ::-1]})
    report = compare("host", save({"prob": wrong["prob"]}), "--outputs-only")
    assert report["blame"] is None and report["pairs"][0]["cause"] == "unlocated"
    assert report["pairs"][0]["notes"][-1] == "8 of 8 nodes could not be forced: B has too few tensors"


def test_final_outputs_alone_are_located_by_the_tensors_of_the_dumps(host: dict[str, Array]) -> None:
    report = compare("host", save(board(host, {LOGITS: lambda value: value[:, ::-1]})), "--outputs-only")
    assert [row["name"] for row in report["pairs"][0]["tensors"]] == ["prob"]
    assert blamed(report) == [("B", LOGITS)]


def test_dumps_of_other_inputs_blame_nobody(host: dict[str, Array]) -> None:
    assert main(["infer", "-m", MODEL, "-o", "other", "--seed", "5"]) == 0
    names = json.loads(Path("other/manifest.json").read_text())["tensors"]
    path = save({name: np.load(f"other/{file}") for file, name in names.items()})
    report = compare(save(host, "a.npz"), path)
    pair = report["pairs"][0]
    assert pair["verdict"] == "FAILED" and report["blame"] is None
    assert pair["cause"] == "input_or_first_node" and pair["first_divergence"] is None
    assert any("1 of 8 nodes could not be forced: its input image is missing in" in note for note in pair["notes"])


def test_a_slight_difference_does_not_come_before_a_gross_one(host: dict[str, Array]) -> None:
    changes = {RELU1: plus(1), LOGITS: plus(40)}
    report = compare("host", save(board(host, changes)))
    blame = report["blame"]
    assert (blame["side"], blame["node"], blame["also"]) == ("B", LOGITS, [RELU1])
    assert f"1 other node differs by at most 2 LSB, first {RELU1}" in blame["why"]
    assert report["pairs"][0]["first_divergence"]["tensor"] == RELU1


def test_a_tie_at_a_float_node_is_not_a_fault(host: dict[str, Array]) -> None:
    """A softmax that differs beyond a tie fails; the same dump without the change passes, node by node or bit for bit."""
    assert compare("host", save(board(host, {})))["verdict"] == "PASSED"
    off = compare("host", save(board(host, {SOFTMAX: plus(1)})))
    assert off["verdict"] == "FAILED" and blamed(off) == [("B", SOFTMAX)]


def test_another_legal_rounding_is_named_and_blames_nobody(host: dict[str, Array]) -> None:
    assert main(["compile", MODEL, "-o", "up.bin", "--rounding", "mul8"]) == 0
    assert main(["infer", "-m", "up.bin", "-o", "up", "--side", "simulator"]) == 0
    report = compare("host", "up")
    pair = report["pairs"][0]
    assert (report["blame"], pair["verdict"], pair["cause"]) == (None, "FAILED", "other_rounding")
    assert pair["arithmetics"] == [
        "B: rounding mul8 (qverify compile --rounding mul8) gives every byte of all 8 tensors"
    ]


def test_the_hosts_own_run_beside_a_stated_arithmetic_is_not_blamed(host: dict[str, Array]) -> None:
    """The reference does not round as --arithmetic states: only the other dump is held to it, and blamed where it does not."""
    assert main(["infer", "-m", MODEL, "-o", "own", "--side", "reference"]) == 0
    chip = open_models([MODEL], arithmetic=open_arithmetic("htp"))
    for changes, wanted in (({}, []), ({RELU2: plus(3)}, [("B", RELU2)])):
        report = compare("own", save(board(host, changes, chip)), "--arithmetic", "htp")
        assert report["verdict"] == "FAILED" and blamed(report) == wanted
        assert any("A computes as the reference does, in every bit" in note for note in report["pairs"][0]["notes"])
    other = compare(save(board(host, {}, chip)), "own", "--arithmetic", "htp")
    assert (
        other["verdict"] == "FAILED" and blamed(other) == []
    )  # it rounds in another known way than a shipped arithmetic
    assert any(text.startswith("B differs from arithmetic htp at ") for text in other["pairs"][0]["relaxed"])


def test_real_values_under_the_names_of_dequantized_tensors(host: dict[str, Array]) -> None:
    graph = open_models([MODEL]).graph

    def real(tensors: dict[str, Array]) -> dict[str, Array]:
        return {
            n.replace(QUANTIZED, DEQUANTIZED): graph.spec(n).dequantized(v).astype(np.float32)
            if n.endswith(QUANTIZED)
            else v
            for n, v in tensors.items()
        }

    right = compare("host", save(real(board(host, {}))))
    assert right["verdict"] == "PASSED" and right["pairs"][0]["coverage"]["compared"] == 8
    wrong = compare("host", save(real(board(host, {RELU2: plus(3)}))))
    assert blamed(wrong) == [("B", RELU2)]


def test_the_text_names_the_blamed_node_and_no_refused_option(
    host: dict[str, Array], capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(board(host, {LOGITS: plus(100)}))
    assert main(["compare", "-v", "host", path, "-m", MODEL]) == 1
    out = capsys.readouterr().out
    assert f"blame: B at {LOGITS}" in out and "(-c -" not in out and "location unknown" not in out


@pytest.mark.parametrize("kernels", ["", "litert-reference"])
def test_a_side_of_this_host_is_held_to_the_exact_value_by_itself(
    kernels: str, host: dict[str, Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reference and simulator compute the same wrong bytes at a node. LiteRT's need not be near the exact value; the
    simulator's must be, whatever the reference was told."""
    models, matrices = open_models([MODEL]), list[dict]()
    right = HostSides(models).run_units(True)["simulator"]

    def off(unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return {n: plus(1)(v) if n == SOFTMAX else v for n, v in right(unit, inputs).items()}

    def record(side: str, tensors: dict[str, Array]) -> Recording:
        specs = {n: models.graph.spec(n) for n in tensors}
        return Recording(side, "", specs=specs, finals=tuple(tensors), tensors=tensors)

    real = two_dumps.find_culprits
    monkeypatch.setattr(
        two_dumps, "find_culprits", lambda u, matrix, *rest: matrices.append(matrix) or real(u, matrix, *rest)
    )
    reference = Recording("reference", "", runtime="litert" if kernels else "qvrt", kernels=kernels)
    known = HostUnits(models.graph, units(models.graph), {"reference": off, "simulator": off}, {"reference": reference})
    a, b = (record(side, t) for side, t in (("A", board(host, {LOGITS: plus(3)})), ("B", board(host, {}))))
    judge_all({"A": a, "B": b}, None, [], Options(), {}, locate=lambda judged: locate(judged, known, Options()))
    verdicts = {side: m[SOFTMAX] for (side, _), m in matrices[-1].items()}
    assert verdicts["reference"].verdict == ("PASSED" if kernels else "FAILED")
    assert (verdicts["simulator"].verdict, verdicts["simulator"].at_fault) == ("FAILED", "simulator")


@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
def test_dumps_of_a_tflite(tmp_path: Path) -> None:
    """Two FULLY_CONNECTED; the second one of B is wrong. The inputs of the network are in both dumps."""
    rng, file = np.random.default_rng(3), File()
    x, h, y = (file.tensor(name, [1, 8], "int8", scale, 3) for name, scale in (("x", 0.04), ("h", 0.31), ("y", 2.4)))
    for source, target, step in ((x, h, 0.04), (h, y, 0.31)):
        w = file.tensor(f"w{target}", [8, 8], "int8", np.float32(0.005), 0, rng.integers(-127, 128, (8, 8)))
        b = file.tensor(f"b{target}", [8], "int32", np.float32(step) * np.float32(0.005), 0, rng.integers(-99, 99, 8))
        file.operator("FULLY_CONNECTED", [source, w, b], [target], "FullyConnectedOptions")
    file.inputs, file.outputs = [x], [y]
    model = tmp_path / "m.tflite"
    model.write_bytes(file.written())
    models = open_models([str(model)])
    prepared = random_inputs(models.graph, 0)
    values = {**prepared.arrays(), **HostSides(models).reference().run(prepared).tensors}
    a = save(dict(values), str(tmp_path / "a.npz"))
    changed = values["y"].copy()
    changed[0, [1, 2]] ^= 8
    b = save({**values, "y": changed}, str(tmp_path / "b.npz"))
    main(["compare", "-q", a, b, "-m", str(model), "--json", str(tmp_path / "r.json")])
    report = json.loads((tmp_path / "r.json").read_text())
    assert [r["name"] for r in report["pairs"][0]["tensors"]] == ["x", "h", "y"]
    assert blamed(report) == [("B", "y")] and "all in 2 of 8 channels: 1, 2" in report["blame"]["why"]
    assert main(["compare", "-q", a, a, "-m", str(model)]) == 0


def test_the_option_that_compiles_a_rounding_is_not_one_for_a_tflite() -> None:
    pair = Pair("A", "B", "FAILED", notes=["gate"], arithmetics=[f"B: {describe('tflite-single')} gives every byte"])
    state_of_an_onnx(pair)
    assert pair.arithmetics == [
        "B: rounding tflite-single (of an ONNX: qverify compile --rounding tflite-single) gives every byte"
    ]


@pytest.mark.parametrize(
    ("model", "host_input", "dump", "node"),
    [
        ("resnet8_cifar10/resnet8_cifar10_s8s8_qdq", "resnet8_x", "resnet8_s8s8_qnn", "t37_Identity" + QUANTIZED),
        ("kws_dscnn/kws_dscnn_u8s8_qdq", "kws_x", "kws_u8s8_ov_q", ""),
    ],
)
def test_recordings_of_real_engines(model: str, host_input: str, dump: str, node: str, tmp_path: Path) -> None:
    shared = Path(__file__).parents[3] / "shared"
    vendors = shared / "vendor-real"
    onnx = shared / "models" / f"{model}.onnx"
    if not (onnx.is_file() and vendors.is_dir()):
        pytest.skip("needs the recordings of vendors' engines in ../shared")
    assert main(["infer", "-m", str(onnx), "-i", str(vendors / f"{host_input}.npy"), "-o", str(tmp_path / "h")]) == 0
    out = str(tmp_path / "report.json")
    main(["compare", "-q", str(tmp_path / "h"), str(vendors / f"{dump}.npz"), "-m", str(onnx), "--json", out])
    report = json.loads(Path(out).read_text())
    assert blamed(report) == ([("B", node)] if node else [])
    assert report["verdict"] == ("FAILED" if node else "PASSED")


def test_a_node_that_reads_a_tensor_in_another_order_is_not_blamed(tmp_path: Path) -> None:
    """The dump has one tensor in another order; what follows was computed from the right one."""
    m = Qdq("int8", seed=3)
    x = m.input((1, 8, 6, 5))
    a = m.quantize(m.op("Conv", [x, m.weight((16, 8, 3, 3), axis=0)], "a", pads=[1] * 4))
    m.outputs.append(m.quantize(m.op("GlobalAveragePool", [a], "b")))
    model = tmp_path / "m.onnx"
    model.write_bytes(m.model().SerializeToString())
    models = open_models([str(model)])
    prepared = random_inputs(models.graph, 0)
    values = {**prepared.arrays(), **HostSides(models).reference().run(prepared).tensors}
    moved = np.ascontiguousarray(values["a_q"].transpose(0, 2, 3, 1)).reshape(values["a_q"].shape)
    paths = [save(dict(values), str(tmp_path / "a.npz")), save({**values, "a_q": moved}, str(tmp_path / "b.npz"))]
    assert main(["compare", "-q", *paths, "-m", str(model), "--json", str(tmp_path / "r.json")]) == 1
    report = json.loads((tmp_path / "r.json").read_text())
    assert blamed(report) == [] and report["findings"][0]["kind"] == "order"  # b shows that the board has a right
    assert report["pairs"][0]["cause"] == "written_order"
    row = next(r for r in report["pairs"][0]["tensors"] if r["name"] == "b_q")
    assert row["forced"]["verdict"] == "INCONCLUSIVE" and "a_q is in another order in B" in row["forced"]["why"]
