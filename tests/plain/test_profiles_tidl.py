"""TIDL traces, through the command line. Every fixture is synthetic, written from the published description of names and
contents; no trace of a board or of the vendor's emulation was at hand."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

from tests.plain.profile_fuzz import spoil

REAL = np.random.default_rng(5).standard_normal((1, 6, 4, 5)).astype(np.float32)
STORED = np.random.default_rng(6).integers(-128, 128, (1, 6, 4, 5)).astype(np.int8)
NAME = "/conv1/Conv_output_0"


def current(values, data=7, graph=0, end="_float.bin"):
    n, c, h, w = values.shape
    return f"tidl_trace_subgraph_{graph}_{data:04}_{n:04}_0001_00001_{c:05}_{w:05}x{h:05}{end}"


def documented(values, data=7, end="_float.bin"):
    n, c, h, w = values.shape
    return f"tidl_trace{data:04}_{n:05}_{c:05}_{w:05}x{h:05}{end}"


def oldest(values, data=7, end="_float.bin"):
    _, c, h, w = values.shape
    return f"net.cfg.txt_{data:04}_{c:05}_{w:05}x{h:05}{end}"


def folder(root: Path, files: dict[str, np.ndarray], rows=((3, 7, NAME),), graph=0, name="traces") -> str:
    path = root / name
    path.mkdir(exist_ok=True)
    for file, values in files.items():
        (path / file).write_bytes(values.tobytes())
    if rows:
        text = "".join(f"{layer} {data} {tensor}\n" for layer, data, tensor in rows)
        (path / "artifacts" / "tempDir").mkdir(parents=True, exist_ok=True)
        (path / "artifacts" / "tempDir" / f"subgraph_{graph}_tidl_net.bin.layer_info.txt").write_text(text)
    return str(path)


@pytest.fixture
def host(tmp_path):
    np.savez(tmp_path / "host.npz", **{NAME: REAL})
    np.savez(tmp_path / "stored.npz", **{NAME: STORED})
    return str(tmp_path / "host.npz"), str(tmp_path / "stored.npz")


@pytest.mark.parametrize("named", [current, documented, oldest])
def test_all_three_forms_of_names(host, tmp_path, named, capsys):
    path = folder(tmp_path, {named(REAL): REAL})
    assert main(["compare", host[0], path, "--profile-b", "tidl"]) == 0
    assert "120 elements compared" in capsys.readouterr().out


def test_told_by_its_names_and_wrong_where_one_value_is(host, tmp_path):
    wrong = REAL.copy()
    wrong[0, 5, 3, 4] += 0.01
    assert main(["compare", host[0], folder(tmp_path, {current(REAL): REAL})]) == 0
    assert main(["compare", host[0], folder(tmp_path, {current(REAL): wrong})]) == 1


def test_width_and_height_are_not_swapped(host, tmp_path):
    swapped = "tidl_trace_subgraph_0_0007_0001_0001_00001_00006_00004x00005_float.bin"
    assert main(["compare", host[0], folder(tmp_path, {swapped: REAL})]) == 3


def test_whole_names_only(tmp_path):
    """conv1 is no conv10, and its values are not taken for conv10's."""
    np.savez(tmp_path / "a.npz", conv1=REAL, conv10=REAL)
    path = folder(tmp_path, {current(REAL): REAL}, rows=((1, 7, "conv10"),))
    assert main(["compare", str(tmp_path / "a.npz"), path]) == 3


def test_every_subgraph_has_its_own_ids(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", one=REAL, two=-REAL)
    path = folder(tmp_path, {current(REAL): REAL, current(REAL, graph=1): -REAL}, rows=((1, 7, "one"),))
    folder(tmp_path, {}, rows=((1, 7, "two"),), graph=1)
    assert main(["compare", str(tmp_path / "a.npz"), path]) == 0
    assert "2 of 2 tensors" in capsys.readouterr().out


def test_fixed_traces_take_the_type_of_the_other_side(host, tmp_path, capsys):
    path = folder(tmp_path, {current(STORED, end=".y"): STORED})
    assert main(["compare", host[1], path]) == 0
    assert "read as int8" in capsys.readouterr().out
    assert main(["compare", host[0], path]) == 3 and "which of int8, uint8" in capsys.readouterr().out
    assert main(["compare", host[0], path, "--dtype", "int8"]) == 3
    assert "int8 without a scale, compared with float32" in capsys.readouterr().out


def test_board_against_emulation(tmp_path, capsys):
    files = {current(STORED, end=".y"): STORED, current(REAL): REAL}
    one, two = folder(tmp_path, files, name="pc"), folder(tmp_path, files, name="evm")
    assert main(["compare", one, two]) == 0
    shown = capsys.readouterr().out
    assert f"{NAME} fixed" in shown and f"{NAME} float" in shown and "1 tensor has equal bytes" in shown
    other = STORED.copy()
    other[0, 0, 0, 0] ^= 1
    folder(tmp_path, {current(STORED, end=".y"): other}, name="evm")
    assert main(["compare", one, two]) == 3 and "give --dtype" in capsys.readouterr().out
    assert main(["compare", one, two, "--dtype", "int8"]) == 1
    assert main(["compare", one, two, "--dtype", f"{NAME} fixed=uint8"]) == 1
    assert main(["compare", one, two, "--dtype", "int3"]) == 2


def test_names_from_elsewhere_or_none(host, tmp_path, capsys):
    path = folder(tmp_path, {current(REAL): REAL}, rows=())
    assert main(["compare", host[0], path]) == 3 and "subgraph 0 dataId 7" in capsys.readouterr().out
    assert main(["compare", path, path]) == 0
    (tmp_path / "info").mkdir()
    (tmp_path / "info" / "subgraph_0_tidl_net.bin.layer_info.txt").write_text(f"3 7 {NAME}\n")
    assert main(["compare", host[0], path, "--layer-info", str(tmp_path / "info")]) == 0


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        (((1, 7, NAME), (2, 7, "another")), 3),
        (((1, 7, NAME), (2, 8, NAME)), 3),
        ((("x", 7, NAME),), 2),
        (((1, -7, NAME),), 2),
        (((1, 7, ""),), 2),
    ],
)
def test_names_in_doubt(host, tmp_path, rows, status):
    assert main(["compare", host[0], folder(tmp_path, {current(REAL): REAL}, rows=rows)]) == status


def test_sizes_that_the_name_does_not_tell(host, tmp_path, capsys):
    path = folder(tmp_path, {current(REAL): REAL[:, :5]})
    assert main(["compare", host[0], path]) == 3 and "its size does not fit" in capsys.readouterr().out
    shutil.rmtree(path)
    huge = "tidl_trace_subgraph_0_0007_999999999_999999999_00001_00006_00005x00004_float.bin"
    assert main(["compare", host[0], folder(tmp_path, {huge: REAL})]) == 2
    shutil.rmtree(path)
    assert main(["compare", host[0], folder(tmp_path, {"C7x_1_" + current(REAL): REAL, current(REAL): REAL})]) == 3
    assert "only one core's part" in capsys.readouterr().out


def test_spoiled(host, tmp_path):
    path = Path(folder(tmp_path, {current(REAL): REAL, current(STORED, end=".y"): STORED}))
    spoil("tidl", host[0], path, [p for p in path.rglob("*") if p.is_file()])


def test_other_bytes_of_an_unknown_type_fail_where_only_equal_values_pass(tmp_path, capsys):
    """Whichever of int8 and uint8 they are, they are not equal; a gate that allows a distance needs the type."""
    wrong = STORED.copy()
    wrong.flat[5] += 1
    names = {"end": ".y"}
    a = folder(tmp_path, {current(STORED, **names): STORED}, name="pc")
    b = folder(tmp_path, {current(wrong, **names): wrong}, name="evm")
    assert main(["compare", a, b, "--profile", "tidl", "--rule", "exact"]) == 1
    assert "1 tensor has other bytes, equal in no type" in capsys.readouterr().out
    assert main(["compare", a, b, "--profile", "tidl"]) == 3
    assert main(["compare", a, b, "--profile", "tidl", "--max-lsb", "1"]) == 3
