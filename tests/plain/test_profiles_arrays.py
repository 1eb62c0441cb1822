"""Rockchip's snapshot and Sophgo's .npz, through the command line. Every fixture is synthetic, written from the published
descriptions; no snapshot folder and no output of model_runner was at hand."""

from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.errors import BadFileError
from qverify.vendor_files.array_files import npy, npz
from qverify.vendor_files.untrusted_files import UntrustedFile

from tests.plain.profile_fuzz import spoil

VALUES = {
    "/conv1/Conv_output_0": np.random.default_rng(1).standard_normal((1, 4, 3, 3)).astype(np.float32),
    "output": np.random.default_rng(2).standard_normal((1, 10)).astype(np.float32),
}


def snapshot(root: Path, deep=False, mapped=True, spoilt=0.0) -> Path:
    path = root / "snapshot"
    for side in ("golden", "simulator"):
        (path / side / ("npy" if deep else "")).mkdir(parents=True)
        for name, values in VALUES.items():
            off = spoilt if side == "simulator" else 0
            np.save(path / side / ("npy" if deep else "") / f"{name.replace('/', '_')}.npy", values + np.float32(off))
    if mapped:
        rows = [f"[Conv] {n}    {n.replace('/', '_')}.npy" for n in VALUES]
        (path / "map_name_to_file.txt").write_text("\n".join(["layer_name   file_name", "-" * 30, *rows, ""]))
    return path


@pytest.fixture
def host(tmp_path):
    np.savez(tmp_path / "host.npz", **VALUES)
    return str(tmp_path / "host.npz")


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_snapshot_by_its_map_or_by_the_names_of_its_files(host, tmp_path, deep, mapped, capsys):
    path = snapshot(tmp_path, deep, mapped)
    assert main(["compare", host, str(path), "--side", "simulator"]) == 0
    assert "2 of 2 tensors" in capsys.readouterr().out
    assert main(["compare", host, str(path / "golden"), "--profile-b", "rockchip"]) == 0
    assert main(["compare", str(path / "golden"), str(path / "simulator")]) == 0


def test_which_folder_is_asked_for(host, tmp_path, capsys):
    path = snapshot(tmp_path)
    assert main(["compare", host, str(path)]) == 2
    assert "contains golden, simulator; name one of them" in capsys.readouterr().err
    assert main(["compare", host, str(path), "--side", "runtime"]) == 2


def test_a_wrong_layer_fails(host, tmp_path):
    path = snapshot(tmp_path, spoilt=0.01)
    assert main(["compare", str(path / "golden"), str(path / "simulator"), "--profile", "rockchip"]) == 1


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ("output output.npy", 3),  # twice
        ("another output.npy", 3),
        ("gone gone.npy", 3),
        ("up ../../../etc/passwd", 3),
        ("a row of five columns here", 2),
    ],
)
def test_a_map_in_doubt(host, tmp_path, row, status):
    path = snapshot(tmp_path)
    with open(path / "map_name_to_file.txt", "a") as file:
        file.write(row + "\n")
    assert main(["compare", host, str(path), "--side", "golden"]) == status


def test_names_written_alike_are_not_chosen_from(tmp_path, capsys):
    path = tmp_path / "snapshot" / "golden"
    path.mkdir(parents=True)
    np.save(path / "a_b.npy", VALUES["output"])
    np.savez(tmp_path / "a.npz", **{"a/b": VALUES["output"], "a_b": VALUES["output"]})
    assert main(["compare", str(tmp_path / "a.npz"), str(path), "--profile-b", "rockchip"]) == 3
    assert "written alike" in capsys.readouterr().out


def test_spoiled_snapshot(host, tmp_path):
    path = snapshot(tmp_path, deep=True) / "golden"
    files = [*path.rglob("*.npy"), path.parent / "map_name_to_file.txt"]
    spoil("rockchip", host, path, files)


def test_sophgo_flat_and_bf16(host, tmp_path, capsys):
    bits = (VALUES["output"].view(np.uint32) >> 16).astype(np.uint16)
    conv = VALUES["/conv1/Conv_output_0"]
    np.savez(tmp_path / "s.npz", **{"/conv1/Conv_output_0": conv.reshape(1, 1, 1, -1), "output": bits})
    words = ["compare", host, str(tmp_path / "s.npz"), "--profile-b", "sophgo"]
    assert main([*words, "-c", "1"]) == 0
    shown = capsys.readouterr().out
    assert "flat, taken as [1, 4, 3, 3]" in shown and "read as bfloat16" in shown
    np.savez(
        tmp_path / "s.npz",
        **{"/conv1/Conv_output_0": np.pad(conv.reshape(1, 1, 1, -1), [(0, 0)] * 3 + [(0, 4)]), "output": bits},
    )
    assert main([*words, "-c", "1"]) == 3


def test_sophgo_int8_wants_a_scale(host, tmp_path, capsys):
    np.savez(tmp_path / "s.npz", **{n: v.astype(np.int8) for n, v in VALUES.items()})
    assert main(["compare", host, str(tmp_path / "s.npz"), "--profile-b", "sophgo"]) == 3
    assert "int8 without a scale" in capsys.readouterr().out


def test_spoiled_npz(host, tmp_path):
    np.savez_compressed(tmp_path / "s.npz", **VALUES)
    spoil("sophgo", host, tmp_path / "s.npz", [tmp_path / "s.npz"])


def test_every_order_of_bytes_and_axes(tmp_path):
    base = VALUES["/conv1/Conv_output_0"]
    for values in (
        base,
        np.asfortranarray(base),
        base.astype(">f4"),
        np.asfortranarray(base.astype(">f8")),
        np.float32(3),
    ):
        np.save(tmp_path / "x.npy", values)
        held = npy(UntrustedFile(str(tmp_path / "x.npy")), "x")
        got = np.frombuffer(held.read(), f"<{'f8' if held.dtype == 'float64' else 'f4'}").reshape(held.shape)
        assert np.array_equal(got, values)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999, 99999999)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "(" * 500,
    ],
)
def test_a_header_that_lies(tmp_path, header):
    text = header.encode().ljust(117) + b"\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\0\0\0\0")
    with pytest.raises(BadFileError, match=r"x\.npy"):
        npy(UntrustedFile(str(tmp_path / "x.npy")), "x")


def test_bombs_and_names_twice(tmp_path):
    path = tmp_path / "b.npz"
    stream = io.BytesIO()
    np.save(stream, np.zeros(4, np.float32))
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as held:
        warnings.simplefilter("ignore")
        held.writestr("x.npy", stream.getvalue())
        held.writestr("x.npy", stream.getvalue())
    with pytest.raises(BadFileError, match="two arrays of one name"):
        npz(UntrustedFile(str(path)))
    with zipfile.ZipFile(path, "w") as held:
        held.writestr("x.npy", stream.getvalue())
    whole = bytearray(path.read_bytes())
    at = whole.rfind(b"PK\x01\x02")
    whole[at + 24 : at + 28] = (2**31 - 1).to_bytes(4, "little")  # what it says it unpacks to
    path.write_bytes(whole)
    with pytest.raises(BadFileError, match="that unpack to 2147483647"):
        npz(UntrustedFile(str(path)))


def test_rockchip_arrays_in_two_places(tmp_path, capsys):
    golden = tmp_path / "s" / "golden"
    (golden / "npy").mkdir(parents=True)
    (tmp_path / "s" / "simulator").mkdir()
    np.save(golden / "y.npy", np.zeros(4, np.float32))
    np.save(golden / "npy" / "y.npy", np.ones(4, np.float32))
    np.savez(tmp_path / "h.npz", y=np.zeros(4, np.float32))
    assert main(["compare", str(tmp_path / "h.npz"), str(tmp_path / "s"), "--side", "golden"]) == 2
    assert "in one of the two places" in capsys.readouterr().err
