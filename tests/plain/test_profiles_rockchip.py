"""Rockchip's snapshot as the vendor's tool really writes it: a map that lists X.txt, texts of one number a line beside
the folder npy/, and the table of errors in both dialects. The files are written by the test in the form of the real
ones (chenhaitao405/TCN, LostmanMing/yolov6_rknn); their numbers are drawn here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

from tests.plain.profile_fuzz import spoil

NAMES = {"/tcn/Relu_output_0-rs": (1, 4, 3, 3), "torque_int8": (1, 28)}
NEW = """# simulator_error: calculate the output error of each layer of the simulator (compared to the 'golden' value).

layer_name                                            simulator_error                             runtime_error
                                                  entire              single                  entire           single_sim
                                               cos      euc        cos      euc            cos      euc        cos      euc
------------------------------------------------------------------------------------------------------
[Conv] fused/chomp1
"""
OLD = """# quant_error: calculate the quantize errors.

layer_name                       quant_error              runtime_error
                             entire    per_layer      simu_err  golden_err
--------------------------------------------------------------------------
"""


def values(side: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    golden = {n: rng.normal(0, 10, s).astype(np.float32) for n, s in NAMES.items()}
    off = {"golden": 0, "simulator": 0.05, "runtime": 0.11}[side]
    return {n: v + np.float32(off) for n, v in golden.items()}


def snapshot(root: Path, sides=("golden", "simulator", "runtime"), forms=("npy", "txt")) -> Path:
    path = root / "snapshot"
    rows = [f"{n:60s}{n.replace('/', '_')}.txt".ljust(120) for n in NAMES]
    (path / "golden").mkdir(parents=True)
    head = ["layer_name".ljust(60) + "file_name", "-" * 126]
    (path / "map_name_to_file.txt").write_text("\n".join([*head, *rows, ""]))
    for side in sides:
        (path / side).mkdir(exist_ok=True)
        for name, array in values(side).items():
            stem = name.replace("/", "_")
            if "npy" in forms:
                (path / side / "npy").mkdir(exist_ok=True)
                np.save(path / side / "npy" / f"{stem}.npy", array)
            if "txt" in forms:
                (path / side / f"{stem}.txt").write_text("".join(f"{v:.6f}\n" for v in array.ravel()))
    return path


def measured(a: str, b: str, name: str) -> tuple[float, float]:
    x, y = (values(side)[name].astype(np.float64).ravel() for side in (a, b))
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y)), float(np.linalg.norm(x - y))


def new_row(name: str, worse: float = 0.0) -> str:
    cells = [measured("golden", "simulator", name), (0.9, 0.5), measured("golden", "runtime", name), (0.8, 0.4)]
    return f"[Relu] {name}   " + "   ".join(f"{c - worse:.5f} | {str(e)[:6]}" for c, e in cells) + "   \n"


def old_row(name: str, worse: float = 0.0) -> str:
    cells = [measured(*p, name)[0] for p in (("golden", "simulator"), ("simulator", "runtime"), ("golden", "runtime"))]
    return f"{name}   {cells[0]:.6f}  0.912345   {cells[1] - worse:.6f}  {cells[2]:.6f}\n"


@pytest.fixture
def host(tmp_path):
    np.savez(tmp_path / "host.npz", **values("runtime"))
    return str(tmp_path / "host.npz")


@pytest.mark.parametrize("forms", [("npy", "txt"), ("txt",), ("npy",)], ids="+".join)
def test_a_map_that_lists_texts(host, tmp_path, forms, capsys):
    path = snapshot(tmp_path, forms=forms)
    assert main(["compare", host, str(path), "--side", "runtime"]) == 0
    assert "2 of 2 tensors, 64 elements compared, 0 missing" in capsys.readouterr().out
    assert main(["compare", host, str(path), "--side", "golden", "-c", "2"]) == 1
    assert main(["compare", str(path / "golden"), str(path / "simulator"), "-c", "2"]) == 1
    assert "2 of 2 tensors, 64 elements compared, 0 missing" in capsys.readouterr().out


def test_texts_alone_have_one_dimension_and_six_decimals(host, tmp_path, capsys):
    path = snapshot(tmp_path, forms=("txt",))
    assert main(["compare", str(path / "golden"), str(path / "golden")]) == 0
    assert "values known to 6 decimals" in capsys.readouterr().out
    assert main(["compare", host, str(path), "--side", "runtime", "-c", "7"]) == 2
    assert "known only to 6 decimals" in capsys.readouterr().err


def test_a_text_that_contradicts_its_array_is_refused(host, tmp_path, capsys):
    path = snapshot(tmp_path)
    file = path / "runtime" / "torque_int8.txt"
    file.write_text("1.5\n" + file.read_text().split("\n", 1)[1])
    assert main(["compare", host, str(path), "--side", "runtime"]) == 2
    assert "torque_int8.txt: other values than" in capsys.readouterr().err


def test_a_text_that_is_no_number_names_file_and_byte(host, tmp_path, capsys):
    path = snapshot(tmp_path, forms=("txt",))
    (path / "runtime" / "torque_int8.txt").write_text("1.000000\n2.0x\n")
    assert main(["compare", host, str(path), "--side", "runtime"]) == 2
    printed = capsys.readouterr().err
    assert "torque_int8.txt: byte 9: b'2.0x' is not a number" in printed and printed.count("\n") == 1


def test_an_empty_text_is_never_passed(tmp_path, capsys):
    path = snapshot(tmp_path, forms=("txt",))
    for side in ("golden", "simulator"):
        for file in (path / side).iterdir():
            file.write_text("")
    assert main(["compare", str(path / "golden"), str(path / "simulator")]) == 2
    assert "no number in it" in capsys.readouterr().err


@pytest.mark.parametrize(("head", "row"), [(NEW, new_row), (OLD, old_row)], ids=["new", "old"])
def test_the_vendors_table_is_recomputed(host, tmp_path, head, row, capsys):
    path = snapshot(tmp_path)
    words = ["compare", host, str(path), "--side", "runtime"]
    (path / "error_analysis.txt").write_text(head + "".join(row(n) for n in NAMES))
    assert main(words) == 0
    assert "error_analysis.txt: 4 values recomputed from the tensors, all as printed" in capsys.readouterr().out
    (path / "error_analysis.txt").write_text(head + "".join(row(n, worse=0.1) for n in NAMES))
    assert main(words) == 0  # the verdict is that of the tensors
    printed = capsys.readouterr().out
    assert "WARNING: rockchip: error_analysis.txt is contradicted by the tensors in 2 of 4 values" in printed
    assert "/tcn/Relu_output_0-rs" in printed


def test_a_table_of_nan_tensors_is_contradicted(host, tmp_path, capsys):
    path = snapshot(tmp_path, forms=("npy",))
    np.save(path / "runtime" / "npy" / "torque_int8.npy", np.full((1, 28), np.nan, np.float32))
    (path / "error_analysis.txt").write_text(NEW + "".join(new_row(n) for n in NAMES))
    assert main(["compare", host, str(path), "--side", "runtime"]) == 1
    assert "its tensors give nan" in capsys.readouterr().out


def test_a_table_of_layers_that_are_not_here_says_so(host, tmp_path, capsys):
    path = snapshot(tmp_path, sides=("golden", "runtime"))
    (path / "error_analysis.txt").write_text(OLD + "elsewhere 0.9 0.9 0.9 0.9\n")
    assert main(["compare", host, str(path), "--side", "runtime"]) == 0
    assert "none of its 3 values could be recomputed from this folder" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    ["", "no table\n", "layer_name quant_error\n entire\n", NEW + "[Relu] x 0.9 | 1.0 and more\n", OLD + "x 0.9\n"],
)
def test_another_table_is_refused_in_one_line(host, tmp_path, text, capsys):
    path = snapshot(tmp_path)
    (path / "error_analysis.txt").write_text(text)
    assert main(["compare", host, str(path), "--side", "runtime"]) == 2
    printed = capsys.readouterr().err
    assert "error_analysis.txt" in printed and printed.count("\n") == 1


def test_spoiled_texts_and_tables(host, tmp_path):
    path = snapshot(tmp_path, forms=("txt",))
    (path / "error_analysis.txt").write_text(NEW + "".join(new_row(n) for n in NAMES))
    shutil.rmtree(path / "simulator")
    files = [*(path / "runtime").iterdir(), path / "map_name_to_file.txt", path / "error_analysis.txt"]
    spoil("rockchip", host, path / "runtime", files)


def test_rows_are_in_the_order_of_the_map_and_no_refused_option_is_advised(tmp_path, capsys):
    path = tmp_path / "snapshot"
    layers = ["images", "z_conv", "a_sigmoid"]  # the first wrong one in running order is the last by name
    for side, wrong in (("simulator", 0), ("runtime", 400)):
        (path / side).mkdir(parents=True)
        for layer in layers:
            np.save(path / side / f"{layer}.npy", np.full((1, 4), 1 + (wrong if layer != "images" else 0), np.float32))
    (path / "map_name_to_file.txt").write_text("".join(f"{layer:20s} {layer}.npy\n" for layer in layers))
    dumps = [str(path / "simulator"), str(path / "runtime"), "--profile", "rockchip"]
    assert main(["compare", *dumps, "-v", "--criteria", "rockchip"]) == 1
    shown = capsys.readouterr().out
    rows = [line.split()[1] for line in shown.splitlines() if line.startswith("[")]
    assert rows == layers and "FAILED (z_conv:" in shown and "(-c -" not in shown


def written(root: Path, tensors: dict[str, np.ndarray], ops: dict[str, str], own: dict[str, str] | None = None) -> Path:
    """Writes a snapshot as rknn-toolkit2 2.5.0 does: columns of one width, 5 decimals, in the order of execution."""
    path, width = root / "snapshot", max(12, *map(len, tensors)) + 6
    off = {"golden": 0.0, "simulator": 0.25}
    for side, error in off.items():
        (path / side / "npy").mkdir(parents=True)
        for name, array in tensors.items():
            value = (array + np.float32(error)).astype(np.float32)
            np.save(path / side / "npy" / f"{name.replace('/', '_')}.npy", value)
            (path / side / f"{name.replace('/', '_')}.txt").write_text("".join(f"{v:.6f}\n" for v in value.ravel()))
    head = ["layer_name".ljust(width) + "file_name".ljust(width), "-" * 2 * width]
    rows = [name.ljust(width) + f"{name.replace('/', '_')}.txt".ljust(width) for name in tensors]
    (path / "map_name_to_file.txt").write_text("\n".join([*head, *rows, ""]))
    lines = [
        "# simulator_error: ...",
        "",
        "layer_name".ljust(width) + "simulator_error",
        "entire   single",
        "cos euc cos euc",
        "---",
    ]
    for name, array in tensors.items():
        b = array.astype(np.float64) + 0.25
        cosine = float(
            (array.astype(np.float64) * b).sum() / np.linalg.norm(array.astype(np.float64)) / np.linalg.norm(b)
        )
        cells = f"{cosine:.5f} | {0.25 * np.sqrt(array.size):.5f}   {(own or {}).get(name, '0.99000 | 0.10000')}"
        lines.append(f"[{ops.get(name, 'Conv')}] {name}".ljust(width + 12) + cells)
    (path / "error_analysis.txt").write_text("\n".join([*lines, ""]))
    return path


def drawn(*names: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: rng.normal(0, 3, (1, 4, 2, 2)).astype(np.float32) for name in names}


def test_a_layer_name_may_contain_a_blank(tmp_path, capsys):
    path = written(tmp_path, drawn("z first", "wide name", "a/last one"), {})
    assert main(["compare", str(path / "golden"), str(path / "simulator"), "-v"]) == 1
    printed = capsys.readouterr().out
    assert "3 of 3 tensors, 48 elements compared, 0 missing" in printed
    assert "error_analysis.txt: 6 values recomputed from the tensors, all as printed" in printed
    assert printed.index("z first") < printed.index("wide name") < printed.index("a/last one")  # of the network


def test_names_of_the_toolchain_pair_with_those_of_the_onnx(tmp_path, capsys):
    tensors = drawn("x_int8", "fc_mm", "relu-rs", "prob-rs", "prob", "t_tp_rs", "pool_2conv0", "fc_mm__float16", "x")
    path = written(tmp_path, tensors, {})
    host = {
        "x": tensors["x"],
        "fc": tensors["fc_mm"].reshape(4, 4),
        "relu": tensors["relu-rs"].reshape(1, 16),
        "prob": tensors["prob"],
    }
    np.savez(tmp_path / "host.npz", **host)
    assert main(["compare", str(tmp_path / "host.npz"), str(path / "golden")]) == 0
    printed = capsys.readouterr().out
    assert "4 of 4 tensors, 64 elements compared, 0 missing" in printed
    assert "also known without the endings of rknn-toolkit2's optimizer" in printed
    assert "inserted by the toolkit, and not on the other side: not compared: 5" in printed
    host["fc"] = host["fc"] + 1
    np.savez(tmp_path / "host.npz", **host)
    assert main(["compare", str(tmp_path / "host.npz"), str(path / "golden")]) == 1
    del host["relu"]
    host["missed"] = tensors["x"]
    np.savez(tmp_path / "host.npz", **host)
    assert main(["compare", str(tmp_path / "host.npz"), str(path / "golden")]) == 1
    assert "missed in B" in capsys.readouterr().out


def test_the_words_of_the_toolkit_have_operator_decimals_and_own_loss(tmp_path, capsys):
    path = written(tmp_path, drawn("z_conv", "a_relu"), {"a_relu": "Relu"}, {"a_relu": "0.87654 | 13.65232"})
    report = tmp_path / "report.json"
    words = ["compare", str(path / "golden"), str(path / "simulator"), "--criteria", "rockchip", "--json", str(report)]
    assert main(words) == 0
    printed = capsys.readouterr().out
    table = printed[printed.index("in the words of rockchip") :].splitlines()
    assert table[1].split() == ["layer_name", "entire", "single"]
    assert table[3].startswith("[Conv] z_conv") and "| 1.00000" in table[3]
    assert table[4].startswith("[Relu] a_relu") and table[4].endswith("0.87654 | 13.65232")
    rows = json.loads(report.read_text())["pairs"][0]["tensors"]
    assert [(r["op"], r["stated"]["single"]) for r in rows] == [
        ("Conv", "0.99000 | 0.10000"),
        ("Relu", "0.87654 | 13.65232"),
    ]


def test_missing_tensors_come_in_the_order_of_the_other_side(tmp_path):
    names = [f"n{k}" for k in (7, 3, 9, 1, 5, 8)]
    np.savez(tmp_path / "a.npz", **drawn(*names))
    np.savez(tmp_path / "b.npz", **drawn(names[0]))
    report = tmp_path / "report.json"
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "--json", str(report)]) == 3
    missing = json.loads(report.read_text())["pairs"][0]["coverage"]["missing"]
    assert [m["tensor"] for m in missing] == names[1:]


def test_a_text_that_is_printed_otherwise_is_read_as_numbers(tmp_path, capsys):
    path = written(tmp_path, drawn("a", "b"), {})
    text = path / "golden" / "a.txt"
    text.write_text(text.read_text().replace("\n", " \n"))
    words = ["compare", str(path / "golden"), str(path / "simulator")]
    assert main(words) == 1 and "2 tensors are in two files" in capsys.readouterr().out
    text.write_text("0.000001\n" + text.read_text().split("\n", 1)[1])
    assert main(words) == 2
    assert "a.txt: other values than" in capsys.readouterr().err
