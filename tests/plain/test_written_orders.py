"""Arrays of a dump that are exchanged or in another order: no node is blamed where what reads them is right, and the node is where
it is not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from qverify.cli.main import main
from qverify.model_bin.units import units
from qverify.renderers.verdict_lines import CAUSES
from qverify.session.host_sides import HostSides
from qverify.session.models import open_models

from tests.ops.qdq import Qdq

SHAPE = (1, 6, 6, 6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """q.onnx: x -> conv a; b, c = convs of a; s = b + c; o = conv of s. x.npy, and the reference's tensors in all.npz."""
    root = tmp_path_factory.mktemp("orders")
    m = Qdq("uint8", seed=2)
    x = m.input(SHAPE)

    def conv(source: str, name: str) -> str:
        return m.quantize(m.op("Conv", [source, m.weight((6, 6, 3, 3), axis=0)], name, pads=[1] * 4))

    a = conv(x, "a")
    s = m.quantize(m.op("Add", [conv(a, "b"), conv(a, "c")], "s"))
    m.outputs.append(conv(s, "o"))
    onnx.save(m.model(), root / "q.onnx")
    np.save(root / "x.npy", np.random.default_rng(4).uniform(-3, 3, SHAPE).astype(np.float32))
    own = [
        "infer",
        "-m",
        str(root / "q.onnx"),
        "-i",
        str(root / "x.npy"),
        "--side",
        "reference",
        "-o",
        str(root / "all"),
    ]
    assert main(own) == 0
    names = json.loads((root / "all" / "manifest.json").read_text())["tensors"]
    np.savez(root / "all.npz", **{name: np.load(root / "all" / file) for file, name in names.items()})
    return root


def judge(folder: Path, root: Path, changes: dict[str, np.ndarray], *options: str) -> dict:
    tensors = {**np.load(folder / "all.npz"), **changes}
    np.savez(root / "b.npz", **tensors)
    model = ["-m", f"{folder / 'q.onnx'},{root / 'b.npz'}", "-i", str(folder / "x.npy")]
    main(["-q", *model, "-r", "True", "--json", str(root / "report.json"), *options])
    return json.loads((root / "report.json").read_text())


def tensor(folder: Path, name: str) -> np.ndarray:
    return np.load(folder / "all.npz")[name]


def test_exchanged_files_blame_no_node(folder: Path, tmp_path: Path) -> None:
    report = judge(folder, tmp_path, {"b_q": tensor(folder, "c_q"), "c_q": tensor(folder, "b_q")})
    assert report["verdict"] == "FAILED" and not report["blamed"]
    assert {pair["cause"] for pair in report["pairs"][1:]} == {"written_order"}
    assert "written in another order or under another name" in CAUSES["written_order"]
    assert any("b_q and c_q are exchanged" in finding["text"] for finding in report["findings"])


def test_the_final_output_in_another_order_blames_no_node(folder: Path, tmp_path: Path) -> None:
    moved = np.ascontiguousarray(tensor(folder, "o_q").transpose(0, 2, 3, 1))
    report = judge(folder, tmp_path, {"o_q": moved})
    assert report["verdict"] == "FAILED" and not report["blamed"]
    assert {pair["cause"] for pair in report["pairs"][1:]} == {"written_order"}
    text = next(finding["text"] for finding in report["findings"])
    assert 'layout = "NHWC" in a dump.toml' in text and "--layout" not in text  # which would move the other arrays, too


def test_what_reads_the_wrong_order_shows_that_the_board_computes_so(folder: Path, tmp_path: Path) -> None:
    """The board's b is turned, and its sum is that of the turned b."""
    run = open_models([str(folder / "q.onnx")])
    unit_of = {u.name: u for u in units(run.graph)}
    compute = HostSides(run).run_units(True)["simulator"]
    b = np.ascontiguousarray(tensor(folder, "b_q").transpose(0, 1, 3, 2))
    s = compute(unit_of["s_q"], {"b_q": b, "c_q": tensor(folder, "c_q")})["s_q"]
    o = compute(unit_of["o_q"], {"s_q": s})["o_q"]
    report = judge(folder, tmp_path, {"b_q": b, "s_q": s, "o_q": o})
    assert [(blame["side"], blame["node"]) for blame in report["blamed"]] == [("board", "b_q")]


def test_a_fault_beside_an_exchange_is_blamed(folder: Path, tmp_path: Path) -> None:
    wrong = (tensor(folder, "s_q").astype(int) + 9).clip(0, 255).astype(np.uint8)
    changes = {"b_q": tensor(folder, "c_q"), "c_q": tensor(folder, "b_q"), "o_q": tensor(folder, "o_q")}
    report = judge(folder, tmp_path, changes | {"s_q": wrong})
    assert report["verdict"] == "FAILED" and {pair["cause"] for pair in report["pairs"][1:]} == {"node"}
