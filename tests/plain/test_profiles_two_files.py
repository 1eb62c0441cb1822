"""Two files of one tensor in a vendor's dump: of other values they are refused by name, of the same both count."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

STORED = np.random.default_rng(3).integers(-128, 128, (1, 3, 4, 5)).astype(np.int8)
REAL = (STORED.astype(np.float32) - 7) * np.float32(0.037)
RAW = "model_infer_output_0_a_b.bin"


def qualcomm(root: Path, real: np.ndarray, native: np.ndarray) -> str:
    (root / "output" / "Result_0").mkdir(parents=True)
    (root / "output" / "Result_0" / "a_b.raw").write_bytes(real.tobytes())
    (root / "output" / "Result_0" / "a_b_native.raw").write_bytes(native.tobytes())
    return str(root / "output")


def tidl(root: Path, real: np.ndarray, native: np.ndarray) -> str:
    stem = "tidl_trace_subgraph_0_0007_0001_0001_00001_00003_00005x00004"
    (root / f"{stem}_float.bin").write_bytes(real.tobytes())
    (root / f"{stem}.y").write_bytes(native.tobytes())
    (root / "subgraph_0_tidl_net.bin.layer_info.txt").write_text("1 7 a_b\n")
    return str(root)


def horizon(root: Path, real: np.ndarray, native: np.ndarray) -> str:
    (root / RAW).write_bytes(native.tobytes())
    (root / RAW.replace(".bin", ".txt")).write_text(" ".join(f"{v:.9f}" for v in real.reshape(-1)))
    return str(root)


NAMES = {qualcomm: ("a_b.raw", "a_b_native.raw"), tidl: ("_float.bin", ".y"), horizon: (RAW, RAW[:-4] + ".txt")}
changed = STORED.copy()
changed[0, 1, 2, 3] ^= 1
OTHER = {
    "one bit": changed,
    "zeros": STORED * 0,
    "negated": ~STORED,
    "reversed": STORED[::-1, ::-1, ::-1, ::-1],
    "floats": REAL + np.float32(0.01),
    "floats of one binade": np.float32(1) + np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5) / 64,
    "short": STORED[:, :, :, :4],
}


@pytest.fixture(params=["real", "stored"])
def host(request, tmp_path):
    np.savez(tmp_path / "host.npz", a_b=REAL if request.param == "real" else STORED)
    return str(tmp_path / "host.npz")


@pytest.mark.parametrize("write", NAMES, ids=lambda w: w.__name__)
def test_two_files_that_agree_are_both_said(write, host, tmp_path, capsys):
    (tmp_path / "dump").mkdir()
    path = write(tmp_path / "dump", REAL, STORED)
    more = ["-c", "8"] if write is horizon and "real" in host else []
    assert main(["compare", host, path, *more]) == 0
    assert "in two files, which agree" in capsys.readouterr().out


@pytest.mark.parametrize("kind", OTHER)
@pytest.mark.parametrize("write", NAMES, ids=lambda w: w.__name__)
def test_two_files_of_other_values_never_pass(write, kind, host, tmp_path, capsys):
    """Whichever of them the other side would be compared with."""
    (tmp_path / "dump").mkdir()
    path = write(tmp_path / "dump", REAL, OTHER[kind])
    status, printed = main(["compare", host, path]), capsys.readouterr()
    assert status in (1, 2, 3)
    if status == 2:
        assert all(name in printed.err + printed.out for name in NAMES[write]), printed


def test_two_files_of_other_values_are_refused_naming_both(host, tmp_path, capsys):
    path = qualcomm(tmp_path, REAL, changed)
    if np.array_equal(np.load(host)["a_b"], REAL):
        assert main(["compare", host, path]) == 2
        error = capsys.readouterr().err
        assert "a_b.raw and a_b_native.raw are files of one tensor, 'a_b', with different values" in error
        assert error.count("\n") == 1


@pytest.mark.parametrize("native", [STORED, changed])
def test_the_file_that_the_other_dump_lacks_is_held_to_the_one_it_has(native, tmp_path, capsys):
    both, one = tmp_path / "both", tmp_path / "one"
    path, other = tidl_folder(both, native), tidl_folder(one, None)
    wanted = 0 if native is STORED else 2
    assert main(["compare", path, other]) == wanted and main(["compare", other, path]) == wanted
    assert ("are files of one tensor" in capsys.readouterr().err) == bool(wanted)


def tidl_folder(root: Path, native: np.ndarray | None) -> str:
    root.mkdir()
    path = tidl(root, REAL, STORED if native is None else native)
    if native is None:
        next(root.glob("*.y")).unlink()
    return path


def test_with_the_scale_of_the_model_an_offset_is_seen(digits: Path, tmp_path: Path, capsys) -> None:
    """Without it, a native file that is off by one everywhere agrees up to its zero point, and the report says so."""
    from qverify.session.models import open_models

    quant = str(digits / "digits_quant.onnx")
    assert main(["infer", "-m", quant, "--side", "simulator", "-o", str(tmp_path / "sim")]) == 0
    graph = open_models([quant]).graph
    name = next(n for n in graph.observable() if graph.spec(n).dtype == "uint8" and n.isidentifier())
    files = json.loads((tmp_path / "sim" / "manifest.json").read_text())["tensors"]
    stored = np.load(tmp_path / "sim" / next(f for f, n in files.items() if n == name)) // 2 + 3
    real = graph.spec(name).dequantized(stored).astype(np.float32)
    np.savez(tmp_path / "host.npz", **{name: real})
    folder = tmp_path / "output" / "Result_0"
    folder.mkdir(parents=True)
    (folder / f"{name}.raw").write_bytes(real.tobytes())
    for off, plain, known in ((0, 0, 0), (1, 0, 2)):
        (folder / f"{name}_native.raw").write_bytes((stored + np.uint8(off)).tobytes())
        words = ["compare", str(tmp_path / "host.npz"), str(tmp_path / "output")]
        assert main(words) == plain and "up to an unknown scale and zero point (give -m)" in capsys.readouterr().out
        assert main([*words, "-m", quant]) == known
        capsys.readouterr()
