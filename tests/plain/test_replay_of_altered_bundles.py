"""A bundle whose manifest, files or models do not belong together is refused, whatever its dump says."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from qverify.cli.main import main
from qverify_agents.binaries import host_architecture

Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    """A bundle with the dump of a board that passes."""
    out = tmp_path_factory.mktemp("packed") / "bundle"
    words = ["pack", "-m", str(digits / "digits_quant.onnx"), "-o", str(out), "--arch", host_architecture()]
    assert main(words) == 0
    subprocess.run(["sh", str(out / "run.sh")], check=True, capture_output=True, timeout=60, cwd="/")
    return out


@pytest.fixture
def bundle(packed: Path, tmp_path: Path) -> Path:
    shutil.copytree(packed, tmp_path / "bundle")
    return tmp_path / "bundle"


def alter(bundle: Path, change: Callable[[Manifest], object]) -> None:
    path = bundle / "manifest.json"
    held = json.loads(path.read_text())
    change(held)
    path.write_text(json.dumps(held))


def other_input(bundle: Path) -> None:
    """An input file of another size, with its own hash in the manifest."""
    data = bytes(8)
    (bundle / "inputs" / "0000.bin").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    alter(bundle, lambda m: m["files"]["inputs/0000.bin"].update(sha256=digest))


ALTERED: dict[str, tuple[Callable[[Path], None], str]] = {
    "another schema": (
        lambda b: alter(b, lambda m: m.update(schema="qverify.bundle/99")),
        "schema 'qverify.bundle/99', wanted 'qverify.bundle/1'; wanted a folder of --capture, or the one that qverify pack made",
    ),
    "one input twice": (
        lambda b: alter(b, lambda m: m["inputs"].append(m["inputs"][0])),
        "not the manifest of a bundle: two inputs of one name",
    ),
    "an input of another name": (
        lambda b: alter(b, lambda m: m["inputs"][0].update(name="picture")),
        "its manifest names no input 'image' of the model",
    ),
    "an input in another file": (
        lambda b: alter(b, lambda m: m["inputs"][0].update(file="model.bin")),
        "its manifest names no input 'image' of the model",
    ),
    "an input of another size": (other_input, "inputs/0000.bin: 8 bytes, wanted 256"),
    "a file without a hash": (
        lambda b: alter(b, lambda m: m["files"].pop("model.bin")),
        "model.bin: is not what was packed (its SHA-256 differs from the manifest's)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_bundle_is_refused(name: str, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, said = ALTERED[name]
    change(bundle)
    capsys.readouterr()
    assert main(["replay", str(bundle)]) == 2
    line = capsys.readouterr()
    assert said in line.err and line.err.count("\n") == 1 and "PASSED" not in line.out


def test_a_dump_alone_is_compared_with_nothing(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the ONNX there is no reference; without the simulator, no other side."""
    alter(bundle, lambda m: m["files"].pop("host/quant.onnx"))
    assert main(["replay", str(bundle)]) == 0
    shown = capsys.readouterr().out
    assert "Sim and Arm result Strict check PASSED" in shown and "ref ~ board" not in shown
    assert main(["replay", str(bundle), "-s", "False"]) == 2
    assert "nothing to compare the dump with: give the quantized ONNX with -m, or -s True" in capsys.readouterr().err


def test_a_run_is_compared_with_a_bundle(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bundle is judged again, as by replay."""
    assert main(["replay", str(bundle), "--json", str(bundle / "r.json")]) == 0
    assert main(["report", "diff", str(bundle / "r.json"), str(bundle)]) == 0
    node = next((bundle / "dump").glob("node_1_*"))
    node.write_bytes(bytes(len(node.read_bytes())))
    capsys.readouterr()
    assert main(["report", "diff", str(bundle / "r.json"), str(bundle)]) != 0
