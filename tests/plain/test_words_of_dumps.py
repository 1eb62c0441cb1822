"""The sentence on a dump leads to its cause: another input in any spelling, a scale that the dump states, an input mistake beside a
node, a zero point."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from qverify.cli.main import main
from qverify.compare.foreign import ForeignUnit, _describe_zero_point
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import units
from qverify.session.models import open_models

from tests.ops.qdq import Qdq

SHAPE = (1, 3, 9, 8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """q.onnx: image -> conv a -> conv b. x.npy, x2.npy: two pictures."""
    root = tmp_path_factory.mktemp("words")
    m = Qdq("uint8", seed=8)
    a = m.quantize(m.op("Conv", [m.quantize(m.input(SHAPE)), m.weight((8, 3, 3, 3), axis=0)], "a"))
    m.outputs.append(m.quantize(m.op("Conv", [a, m.weight((8, 8, 3, 3), axis=0)], "b")))
    onnx.save(m.model(), root / "q.onnx")
    random = np.random.default_rng(9)
    for name in ("x", "x2"):
        np.save(root / f"{name}.npy", random.uniform(-2, 3, SHAPE).astype(np.float32))
    return root


def run_on(folder: Path, root: Path, values: np.ndarray) -> dict[str, np.ndarray]:
    """Returns what a right device gives of these values."""
    np.save(root / "fed.npy", values)
    where = str(root / f"of{len(list(root.iterdir()))}")
    own = ["infer", "-m", str(folder / "q.onnx"), "-i", str(root / "fed.npy"), "--side", "reference", "-o", where]
    assert main(own) == 0
    names = json.loads(Path(where, "manifest.json").read_text())["tensors"]
    return {name: np.load(Path(where, file)) for file, name in names.items()}


def judge(folder: Path, root: Path, tensors: dict[str, np.ndarray]) -> dict:
    np.savez(root / "b.npz", **tensors)
    return judge_path(folder, root, str(root / "b.npz"))


def judge_path(folder: Path, root: Path, path: str) -> dict:
    model = ["-m", f"{folder / 'q.onnx'},{path}", "-i", str(folder / "x.npy")]
    main(["-q", *model, "-r", "True", "--json", str(root / "report.json")])
    return json.loads((root / "report.json").read_text())


def graph_of(folder: Path) -> Graph:
    return open_models([str(folder / "q.onnx")]).graph


@pytest.mark.parametrize("real", [False, True])
def test_another_input_is_found_in_the_quantized_spelling(folder: Path, tmp_path: Path, real: bool) -> None:
    """It is given as integers, or as the network's own floats, without those of the other spelling."""
    graph, other = graph_of(folder), np.load(folder / "x2.npy")
    tensors, stored = run_on(folder, tmp_path, other), graph.nodes[0].outputs[0]
    if real:
        del tensors[stored]
        tensors[graph.inputs[0]] = other
    report = judge(folder, tmp_path, tensors)
    assert report["findings"][0]["kind"] == "input" and "is not that of -i" in report["findings"][0]["text"]
    assert {pair["cause"] for pair in report["pairs"][1:]} == {"other_inputs"}
    assert all("is not that of -i" in pair["relaxed"][0] for pair in report["pairs"][1:])


def test_an_input_that_is_quantized_wrongly_is_not_called_another(folder: Path, tmp_path: Path) -> None:
    tensors = run_on(folder, tmp_path, np.load(folder / "x.npy") * np.float32(0.6))
    report = judge(folder, tmp_path, tensors)
    assert not [f for f in report["findings"] if f["kind"] == "input"]
    assert {pair["cause"] for pair in report["pairs"][1:]} == {"input_or_first_node"}


@pytest.mark.parametrize("stated", ["a_q", "b_q"])
@pytest.mark.parametrize(("key", "said"), [("scale", "2 times that of -m"), ("zero_point", "in -m")])
def test_what_a_dump_states_of_right_integers_is_the_cause(
    folder: Path, tmp_path: Path, key: str, said: str, stated: str
) -> None:
    """It is stated of an inner tensor, or of the final output, whose real values follow from its integers."""
    tensors, graph = run_on(folder, tmp_path, np.load(folder / "x.npy")), graph_of(folder)
    if stated == "b_q":
        del tensors[graph.outputs[0]]
    dump = tmp_path / "dump"
    dump.mkdir()
    rows = []
    for name, value in tensors.items():
        spec = graph.spec(name)
        value.tofile(dump / f"{len(rows)}.bin")
        row = {"name": name, "file": f"{len(rows)}.bin", "dtype": value.dtype.name, "shape": list(value.shape)}
        row |= {"scale": spec.scale[0], "zero_point": spec.zero_point[0]} if spec.quantized else {}
        if name == stated:
            row[key] = row[key] * 2 if key == "scale" else row[key] + 9
        rows.append("\n".join(["[[tensor]]", *(f"{k} = {json.dumps(v)}" for k, v in row.items())]))
    (dump / "dump.toml").write_text("\n".join(rows))
    report = judge_path(folder, tmp_path, str(dump))
    assert report["verdict"] == "FAILED" and not report["blamed"]
    pairs = report["pairs"][1:]
    assert {pair["cause"] for pair in pairs} == {"stated_scale"} and not any(pair["bit_equal"] for pair in pairs)
    text = next(f["text"] for f in report["findings"] if f["tensor"] == stated)
    assert text.startswith(f"{stated}: the integers of both sides are equal") and said in text
    assert not any("accumulated rounding" in note for pair in pairs for note in pair["notes"])


def test_a_mistake_of_the_input_is_named_beside_a_node(folder: Path, tmp_path: Path) -> None:
    """Red and blue are exchanged, and the second convolution is off by 5."""
    graph = graph_of(folder)
    tensors = run_on(folder, tmp_path, np.ascontiguousarray(np.load(folder / "x.npy")[:, ::-1]))
    del tensors[graph.nodes[0].outputs[0]]
    tensors["b_q"] = (tensors["b_q"].astype(int) + 5).clip(0, 255).astype(np.uint8)
    report = judge(folder, tmp_path, tensors)
    assert [(blame["side"], blame["node"]) for blame in report["blamed"]] == [("board", "b_q")]
    for pair in report["pairs"][1:]:
        assert pair["cause"] == "node" and "channel order: red and blue exchanged" in pair["why"]


def test_differences_by_the_zero_point_are_said(folder: Path) -> None:
    models = open_models([str(folder / "q.onnx")])
    unit = next(u for u in units(models.graph) if u.name == "a_q")
    made = np.full(models.graph.spec("a_q").shape, 200, np.uint8)
    zero = models.graph.spec("a_q").zero_point[0]
    foreign = ForeignUnit(unit, "a_q", models.graph, {}, made, (made - zero).astype(np.uint8), "", True, {}, 0.0)
    assert zero and _describe_zero_point(foreign) == f", which is its zero point ({zero})"
    one_more = foreign.recorded.copy()
    one_more.reshape(-1)[0] += 1
    apart = ForeignUnit(unit, "a_q", models.graph, {}, made, one_more, "", True, {}, 0.0)
    assert _describe_zero_point(apart) == ""
