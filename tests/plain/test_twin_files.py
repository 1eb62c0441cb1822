"""A second file of a tensor, which no reader would open, is never overlooked: it has the same values, or is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.sides.dumps.array_dump import open_array_dump
from qverify.sides.dumps.twin_files import find_twins
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

Y = np.arange(12, dtype=np.float32).reshape(3, 4) / 4
OTHER = Y + 1


def _npz(folder: Path, values: np.ndarray) -> str:
    np.savez(folder / "all.npz", y=values)
    return "all.npz"


def _below(folder: Path, values: np.ndarray) -> str:
    (folder / "later").mkdir()
    np.save(folder / "later" / "y.npy", values)
    return "later/y.npy"


def _raw(folder: Path, values: np.ndarray) -> str:
    values.tofile(folder / "y.bin")
    return "y.bin"


def _raw_below(folder: Path, values: np.ndarray) -> str:
    (folder / "later").mkdir()
    values.tofile(folder / "later" / "y.dat")
    return "later/y.dat"


def _text(folder: Path, values: np.ndarray) -> str:
    np.savetxt(folder / "y.txt", values.ravel(), fmt="%.4f")
    return "y.txt"


def _csv(folder: Path, values: np.ndarray) -> str:
    np.savetxt(folder / "y.csv", values, fmt="%.4f", delimiter=",")
    return "y.csv"


def _table(folder: Path, values: np.ndarray) -> str:
    """Tables of measurements have names of columns and numbers of rows."""
    rows = [f"{k};{';'.join(f'{v:.4f}' for v in row)}\r\n" for k, row in enumerate(values)]
    (folder / "y.csv").write_text(f";{';'.join('abcd')}\r\n{''.join(rows)}", newline="")
    return "y.csv"


def _tabs(folder: Path, values: np.ndarray) -> str:
    np.savetxt(folder / "y.tsv", values, fmt="%.4f", delimiter="\t", header="a\tb\tc\td", comments="")
    return "y.tsv"


WRITERS = (_npz, _below, _raw, _raw_below, _text, _csv, _table, _tabs)


@pytest.fixture
def dumps(tmp_path: Path) -> tuple[Path, Path]:
    for name in "ab":
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "y.npy", Y)
    return tmp_path / "a", tmp_path / "b"


@pytest.mark.parametrize("write", WRITERS)
def test_a_file_with_other_values_of_a_tensor_is_refused(
    dumps: tuple[Path, Path], write: Callable[[Path, np.ndarray], str], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = dumps
    other = write(b, OTHER)
    for first, second in ((a, b), (b, a)):
        assert main(["compare", str(first), str(second)]) == 2
        error = capsys.readouterr().err
        assert f"{b}: y.npy and {other} are files of one tensor, 'y', with different values; keep one of them" in error
        assert error.count("\n") == 1


@pytest.mark.parametrize("write", WRITERS)
def test_a_file_with_the_same_values_is_no_contradiction(
    dumps: tuple[Path, Path], write: Callable[[Path, np.ndarray], str]
) -> None:
    a, b = dumps
    write(b, Y)
    assert main(["compare", str(a), str(b)]) == 0


def test_a_log_with_the_name_of_a_tensor_and_files_of_other_names_are_none_of_it(dumps: tuple[Path, Path]) -> None:
    a, b = dumps
    (b / "y.txt").write_text("layer y took 12.5 ms\n")
    np.savetxt(b / "times.txt", OTHER)
    np.savez(b / "inputs.npz", x=OTHER)
    assert main(["compare", str(a), str(b)]) == 0


def test_a_scale_that_one_dump_alone_gives_is_named_of_equal_bytes_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.arange(-20, 20, dtype=np.int8)
    (tmp_path / "b").mkdir()
    np.savez(tmp_path / "a.npz", x=values)
    values.tofile(tmp_path / "b" / "x.bin")
    entry = (
        '{"tensor": [{"name": "x", "file": "x.bin", "dtype": "int8", "shape": [40], "scale": 0.5, "zero_point": 0}]}'
    )
    (tmp_path / "b" / "dump.json").write_text(entry)
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "b")]) == 0
    assert "1 tensor is read by a scale that only one dump gives, first x" in capsys.readouterr().out.splitlines()[-1]


def test_the_real_values_of_a_quantized_tensor_are_no_contradiction(tmp_path: Path) -> None:
    stored = np.array([-3, 1, 9], np.int8)
    spec = TensorSpec("y", "int8", (3,), scale=(0.5,), zero_point=(1,))
    recording = Recording("dump", "d", specs={"y": spec}, tensors={"y": stored})
    np.save(tmp_path / "y.npy", stored)
    for printed, twins in ((stored, []), ([-2.0, 0.0, 4.0], []), ([-2.0, 0.0, 4.5], [("y", "y.npy", "y.txt")])):
        np.savetxt(tmp_path / "y.txt", np.asarray(printed, np.float64), fmt="%.3f")
        assert list(find_twins(str(tmp_path), recording)) == twins


def test_a_name_that_two_files_spell_alike_is_that_of_the_exact_one(tmp_path: Path) -> None:
    for name, values in (("y_1", Y), ("y.1", OTHER)):
        np.save(tmp_path / f"{name}.npy", values)
    OTHER.tofile(tmp_path / "y_1.bin")
    OTHER.tofile(tmp_path / "y-1.bin")  # of either
    recording = open_array_dump(str(tmp_path), "dump")
    assert list(find_twins(str(tmp_path), recording)) == [("y_1", "y_1.npy", "y_1.bin")]


@pytest.mark.parametrize("write", [_npz, _below, _raw_below, _text])
def test_files_beside_raw_ones_must_have_the_same_values(
    tmp_path: Path, write: Callable[[Path, np.ndarray], str], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = tmp_path / "a.npz", tmp_path / "b"
    np.savez(a, y=Y)
    for values, status in ((Y, 0), (OTHER, 2)):
        shutil.rmtree(b, ignore_errors=True)
        b.mkdir()
        Y.tofile(b / "y.bin")
        other = write(b, values)
        for first, second in ((a, b), (b, a)):
            assert main(["compare", str(first), str(second), "--dtype", "float32"]) == status
        error = capsys.readouterr().err
        assert status == 0 or f"{b}: y.bin and {other} are files of one tensor, 'y', with different values" in error
