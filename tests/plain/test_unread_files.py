"""Tests that what a dump or a gate leaves out is said: raw files that nothing describes, floats that no LSB limits."""

import numpy as np
import pytest
from qverify.cli.main import main

VALUES = np.arange(4, dtype=np.float32)


@pytest.fixture
def arrays(tmp_path):
    (tmp_path / "a").mkdir()
    np.save(tmp_path / "a" / "out.npy", VALUES)
    return tmp_path / "a"


def _described(folder, *more):
    folder.mkdir()
    (folder / "out.bin").write_bytes(VALUES.tobytes())
    for name in more:
        (folder / name).write_bytes(VALUES.tobytes())
    (folder / "dump.toml").write_text('[[tensor]]\nname = "out"\nfile = "out.bin"\ndtype = "float32"\nshape = [4]\n')
    return folder


def test_raw_files_that_the_manifest_lacks_are_named(arrays, tmp_path, capsys):
    told = _described(tmp_path / "told")
    assert main(["compare", str(arrays), str(told)]) == 0
    assert "not read" not in capsys.readouterr().out
    dump = _described(tmp_path / "b", "conv1.bin", "conv2.raw")
    assert main(["compare", str(arrays), str(dump)]) == 0
    printed = capsys.readouterr().out
    assert "2 raw files were not read (conv1.bin, conv2.raw): add a [[tensor]] entry" in printed


def test_raw_files_beside_arrays_are_named(arrays, tmp_path, capsys):
    (tmp_path / "b").mkdir()
    np.save(tmp_path / "b" / "out.npy", VALUES)
    (tmp_path / "b" / "conv1.bin").write_bytes(b"1234")
    assert main(["compare", str(arrays), str(tmp_path / "b")]) == 0
    assert "1 raw file was not read (conv1.bin): a dump.toml describes them all" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "instead"), (((), "their bytes must be equal"), (("-c", "3"), "the other gates judge"))
)
def test_max_lsb_says_that_it_judges_no_floats(words, instead, arrays, tmp_path, capsys):
    (tmp_path / "b").mkdir()
    np.save(tmp_path / "b" / "out.npy", VALUES)
    assert main(["compare", str(arrays), str(tmp_path / "b"), "--max-lsb", "1", *words]) == 0
    printed = capsys.readouterr().out
    assert f"cannot apply to float outputs: 1 tensor is float (out); {instead}" in " ".join(printed.split())


def test_max_lsb_of_integers_says_nothing(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "out.npy", np.arange(4, dtype=np.int8))
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--max-lsb", "1"]) == 0
    assert "cannot apply" not in capsys.readouterr().out
