"""Tests that values under another spelling of a quantized tensor's name stand for the same integers, or the dump is refused."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from qverify.cli.main import main

STORED = "relu2_QuantizeLinear_Output"
Write = Callable[[Path, np.ndarray, np.ndarray], str]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    """q.onnx, x.npy and in `all` the tensors that the simulator computes of them."""
    root = tmp_path_factory.mktemp("spellings")
    shutil.copy(digits / "digits_quant.onnx", root / "q.onnx")
    np.save(root / "x.npy", np.random.default_rng(3).random((1, 1, 8, 8)).astype(np.float32))
    model = ["-m", str(root / "q.onnx"), "-i", str(root / "x.npy")]
    assert main(["infer", *model, "--side", "simulator", "-o", str(root / "all")]) == 0
    return root


def integers(folder: Path, codes: np.ndarray, real: np.ndarray) -> str:
    np.save(folder / "relu2.npy", codes)
    return "relu2"


def suffixed(folder: Path, codes: np.ndarray, real: np.ndarray) -> str:
    np.save(folder / "relu2_quantized.npy", codes)
    return "relu2_quantized"


def before_the_quantizer(folder: Path, codes: np.ndarray, real: np.ndarray) -> str:
    """Real values that are no whole steps."""
    np.save(folder / "relu2.npy", real + np.float32(0.3) * (real[real > 0].min()))
    return "relu2"


def raw(folder: Path, codes: np.ndarray, real: np.ndarray) -> str:
    codes.tofile(folder / "relu2.bin")
    return "relu2.bin"


def raw_floats(folder: Path, codes: np.ndarray, real: np.ndarray) -> str:
    real.tofile(folder / "relu2.raw")
    return "relu2.raw"


def text(folder: Path, codes: np.ndarray, real: np.ndarray) -> str:
    np.savetxt(folder / "relu2.txt", codes.ravel(), fmt="%d")
    return "relu2.txt"


def archive(folder: Path, codes: np.ndarray, real: np.ndarray) -> str:
    np.savez(folder / "more.npz", relu2=codes)
    return "more.npz"


def judge(host: Path, root: Path, write: Write, by: int, option: bool = True) -> tuple[int, str]:
    """Judges the simulator's tensors beside which the same integers lie in another spelling, five elements of them off by this
    many steps. Returns the exit status and the name of what was written."""
    dump = root / "dump"
    shutil.copytree(host / "all", dump)
    for file in ("manifest.json", "dump.json"):
        (dump / file).unlink(missing_ok=True)
    codes = np.load(dump / f"{STORED}.npy")
    scale = _scale_of(host)
    changed = codes.copy()
    changed.reshape(-1)[100:105] += np.array(by, changed.dtype)
    name = write(dump, changed, changed.astype(np.float32) * np.float32(scale))
    status = main(["-m", f"{host / 'q.onnx'},{dump}", "-i", str(host / "x.npy"), "-r", str(option)])
    return status, name


def _scale_of(host: Path) -> float:
    named = {i.name: i for i in onnx.load(host / "q.onnx").graph.initializer}
    assert int(numpy_helper.to_array(named["relu2_zero_point"])) == 0
    return float(numpy_helper.to_array(named["relu2_scale"]))


ALL = (integers, suffixed, before_the_quantizer, raw, raw_floats, text, archive)


@pytest.mark.parametrize("option", [True, False])
@pytest.mark.parametrize("write", ALL)
def test_other_values_in_another_spelling_are_refused(write: Write, option: bool, host: Path, tmp_path, capsys) -> None:
    status, name = judge(host, tmp_path, write, 5, option)
    assert status == 2
    said = f"{name} and {STORED} are of one tensor and contradict each other: 5 elements differ, by up to "
    assert re.search(rf"{re.escape(said)}[\d.]+ steps; keep one of them$", capsys.readouterr().err.strip())


@pytest.mark.parametrize("write", ALL)
def test_the_same_values_in_another_spelling_change_nothing(write: Write, host: Path, tmp_path: Path) -> None:
    """A name that the ONNX does not have is left out, as an engine's own tensors are."""
    assert judge(host, tmp_path, write, 0)[0] == 0


def test_what_has_another_shape_or_another_tensors_name_is_left_alone(host: Path, tmp_path: Path) -> None:
    def other(folder: Path, codes: np.ndarray, real: np.ndarray) -> str:
        np.save(folder / "relu2.npy", codes.reshape(-1)[:7])
        np.save(folder / "relu22.npy", codes + np.array(9, codes.dtype))
        return ""

    assert judge(host, tmp_path, other, 3)[0] in (0, 3)


def test_compare_refuses_them_as_well(host: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge(host, tmp_path, integers, 5)
    capsys.readouterr()
    assert main(["compare", str(host / "all"), str(tmp_path / "dump"), "-m", str(host / "q.onnx")]) == 2
    assert "contradict each other" in capsys.readouterr().err
