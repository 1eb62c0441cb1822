"""--npz: the tensors of every side, by confined names, as the run had them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.session.npz_file import write_npz

NODE = "relu2_QuantizeLinear_Output"
BAD = f"faulty:local?fault=plus_one@{NODE}"


def run(digits: Path, board: str, *more: str) -> int:
    return main(["-m", str(digits / "digits_quant.onnx"), "-b", board, "-r", "True", "-q", *more])


def test_every_side_has_its_tensors(digits, tmp_path):
    file = tmp_path / "t.npz"
    assert (
        run(digits, BAD, "--npz", str(file), "--capture", str(tmp_path / "cap"), "--json", str(tmp_path / "r.json"))
        == 1
    )
    report = json.loads((tmp_path / "r.json").read_text())
    with np.load(file) as held:
        index = json.loads(held["index.json"])
        arrays = {row["key"]: held[row["key"]] for row in index["arrays"]}
    assert index["schema"] == "qverify.npz/1" and index["missing"] == []
    sides = {row["side"] for row in index["arrays"]}
    assert sides == {"inputs", "reference", "simulator", "board"}
    for row in index["arrays"]:
        assert (arrays[row["key"]].dtype.name, [*arrays[row["key"]].shape]) == (row["dtype"], row["shape"])
    pairs = {(p["a"], p["b"]): p for p in report["pairs"]}
    for row in pairs["simulator", "board"]["tensors"]:
        a, b = (arrays[f"{side}/{row['name']}"] for side in ("simulator", "board"))
        assert int((a != b).sum()) == row["mismatched"], row["name"]
    assert main(["replay", str(tmp_path / "cap"), "-q", "--npz", str(tmp_path / "again.npz")]) == 1
    with np.load(tmp_path / "again.npz") as again:
        assert {k: again[k].tobytes() for k in arrays} == {k: v.tobytes() for k, v in arrays.items()}


def test_what_did_not_cross_the_link_is_missing_by_name(digits, tmp_path):
    file = tmp_path / "t.npz"
    main(["-m", str(digits / "digits_quant.onnx"), "-b", BAD, "-s", "False", "-q", "--npz", str(file)])
    with np.load(file) as held:
        index, keys = json.loads(held["index.json"]), set(held.files)
    listed = {row["key"] for row in index["arrays"]}
    assert keys == listed | {"index.json"}
    assert {f"board/{row['tensor']}" for row in index["missing"]}.isdisjoint(keys) and all(
        r["why"] for r in index["missing"]
    )


def test_names_are_confined(digits, tmp_path):
    import onnx

    model = onnx.load(digits / "digits_quant.onnx")
    ugly = f"../../{'x' * 300}\n<script>"
    for node in model.graph.node:
        for names in (node.input, node.output):
            for at, name in enumerate(names):
                names[at] = ugly if name == NODE else name
    onnx.save(model, tmp_path / "m.onnx")
    file = tmp_path / "t.npz"
    assert main(["-m", str(tmp_path / "m.onnx"), "-b", "local", "-r", "True", "-q", "--npz", str(file)]) == 0
    with zipfile.ZipFile(file) as held:
        assert all(".." not in n and "\n" not in n and n.count("/") <= 1 and len(n) < 200 for n in held.namelist())
        assert ugly in {row["tensor"] for row in json.loads(held.read("index.json"))["arrays"]}


@pytest.mark.parametrize(
    "words",
    [["-b", "local", "-b", "local"], ["-b", "local", "-i", "{folder}"], ["-b", "local", "--npz", "{folder}/no/x.npz"]],
)
def test_what_cannot_be_written_is_said_before_the_run(words, digits, tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.zeros((1, 1, 8, 8), np.float32))
    words = [w.format(folder=tmp_path) for w in words]
    more = [] if "--npz" in words else ["--npz", str(tmp_path / "t.npz")]
    assert main(["-m", str(digits / "digits_quant.onnx"), *words, *more]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and "--npz" in printed and not (tmp_path / "t.npz").exists()


def test_a_file_that_was_cut_off_is_not_left(tmp_path):
    class Broken(dict[str, np.ndarray]):
        def __getitem__(self, name: str) -> np.ndarray:
            raise OSError(28, "No space left on device")

    (tmp_path / "t.npz").write_bytes(b"before")
    with pytest.raises(OSError, match=r"t\.npz"):
        write_npz(str(tmp_path / "t.npz"), Broken(a=np.zeros(3)))
    assert (tmp_path / "t.npz").read_bytes() == b"before" and len([*tmp_path.iterdir()]) == 1
