"""`inputs diff` of files and folders: what it says, advises and refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from qverify.cli.main import main

from tests.plain.inputs_by_others import MEAN, by_formula, half_up, photo, small


def numpy_header(rows: int) -> bytes:
    """Returns a .npy file whose array is not there."""
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows}, 3, 3), }}"
    return b"\x93NUMPY\x01\x00v\x00" + text.ljust(117).encode() + b"\n123"


def test_only_the_padding_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.fromarray(photo()).save(tmp_path / "a.png")
    rows = np.pad(small(photo()).reshape(48, -1), [(0, 0), (0, 96)])
    rows[:, 192:] = np.random.Generator(np.random.PCG64(2)).integers(0, 256, (48, 96))
    rows.tofile(tmp_path / "b.bin")
    words = ["inputs", "diff", str(tmp_path / "a.png"), str(tmp_path / "b.bin"), "--format", "rgb", "--size", "64x48"]
    assert main([*words, "--width-align", "96"]) == 1
    assert "only the padding differs: as described, every valid element is equal" in capsys.readouterr().out


def diff(*words: object) -> int:
    return main(["inputs", "diff", *map(str, words)])


def test_files_and_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "board").mkdir()
    for i in range(3):
        rgb = np.roll(photo(), 11 * i, axis=1)
        Image.fromarray(rgb).save(tmp_path / "in" / f"{'cab'[i]}.png")
        (tmp_path / "board" / f"{'cab'[i]}.raw").write_bytes(small(rgb)[..., ::-1].tobytes())
    options = ["--format", "rgb", "--size", "64x48"]
    assert main(["inputs", "prepare", str(tmp_path / "in"), *options, "-o", str(tmp_path / "made")]) == 0
    capsys.readouterr()
    assert diff(tmp_path / "in", tmp_path / "made", *options) == 0  # by order
    assert capsys.readouterr().out.startswith("EQUAL: all 3 frames\n")
    assert diff(tmp_path / "made", tmp_path / "made") == 0
    capsys.readouterr()
    for a, more in ((tmp_path / "in", options), (tmp_path / "made", [])):  # the second without the pictures
        assert diff(a, tmp_path / "board", *more, "--json", tmp_path / "d.json") == 1
        said = capsys.readouterr().out
        assert said.startswith("DIFFERENT: 3 of 3 frames; channel order: bgr instead of rgb reproduces each\n")
        assert "--format bgr" in said and ("needs the picture before the resize" in said) == (not more)
        held = json.loads((tmp_path / "d.json").read_text())
        assert held["schema"] == "qverify.inputs_diff/1" and held["verdict"] == "DIFFERENT"
        assert held["common"] == [["channel order: bgr instead of rgb"]] and len(held["frames"]) == 3
        assert held["frames"][1]["exact"][0][0][0]["family"] == "channel-order"
    (tmp_path / "board" / "b.raw").unlink()
    assert diff(tmp_path / "in", tmp_path / "board", *options) == 2
    assert "captures in" in capsys.readouterr().err


def test_bytes_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = small(photo())
    data.tofile(tmp_path / "a.bin")
    data[..., ::-1].tofile(tmp_path / "b.bin")
    (data ^ 128).tofile(tmp_path / "c.bin")
    np.save(tmp_path / "a.npy", data)
    assert diff(tmp_path / "a.bin", tmp_path / "a.bin") == 0
    assert diff(tmp_path / "a.bin", tmp_path / "a.npy") == 0
    assert diff(tmp_path / "a.bin", tmp_path / "b.bin") == 1
    said = capsys.readouterr().out
    assert "every three bytes reversed" in said and "needs a description" in said
    assert diff(tmp_path / "a.bin", tmp_path / "c.bin") == 1
    assert "-128" in capsys.readouterr().out
    assert diff(tmp_path / "a.npy", tmp_path / "b.bin", "--format", "bgr", "--size", "64x48") == 0
    capsys.readouterr()
    assert diff(tmp_path / "a.bin", tmp_path / "b.bin", "--format", "nv12", "--size", "64x48") == 2  # not of that size
    assert "a.bin: 9216 bytes; at most 4608" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: p.write_bytes(b""), "empty, nothing to compare"),
        (lambda p: p.mkdir(), "contains no files, nothing to compare"),
        (lambda p: None, "No such file"),
        (lambda p: os.mkfifo(p), "not a regular file"),
        (lambda p: p.symlink_to("/dev/zero"), "not a regular file"),
        (lambda p: (p.touch(), os.truncate(p, 1 << 40)), "at most"),
    ],
)
def test_a_capture_that_is_none_is_one_line(
    make: Callable[[Path], object], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.fromarray(photo()).save(tmp_path / "a.png")
    make(tmp_path / "b.bin")
    assert diff(tmp_path / "a.png", tmp_path / "b.bin", "--format", "rgb", "--size", "64x48") == 2
    seen = capsys.readouterr()
    assert said in seen.err and len(seen.err.strip().splitlines()) == 1 and "EQUAL" not in seen.out


@pytest.mark.parametrize("name", ["a.png", "a.npy", "a.bin"])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n nothing",
        b"\x93NUMPY\x01\x00v\x00{'descr': '|u1'",
        *(numpy_header(n) for n in (1 << 40, 1 << 80)),
    ],
)
def test_an_input_that_is_none_is_one_line(
    name: str, data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(data)
    (tmp_path / "b.bin").write_bytes(small(photo()).tobytes())
    assert diff(tmp_path / name, tmp_path / "b.bin", "--format", "rgb", "--size", "64x48") == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert diff(tmp_path / "b.bin", tmp_path / name, "--format", "rgb", "--size", "64x48") in (1, 2)
    assert "EQUAL" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "board"),
    [
        (["--format", "rgb"], lambda x: small(x, cv2.INTER_AREA)[..., ::-1].tobytes()),
        (["--format", "nv12"], lambda x: by_formula(small(x), 0.299, 0.114, True, False, half_up)),
        (["--format", "featuremap", "--mean", "120,110,100"], lambda x: (small(x) - MEAN[::-1]).tobytes()),
    ],
)
def test_the_advice_makes_them_equal(
    options: list[str],
    board: Callable[[np.ndarray], bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Image.fromarray(photo()).save(tmp_path / "a.png")
    (tmp_path / "b.bin").write_bytes(board(photo()))
    words = [tmp_path / "a.png", tmp_path / "b.bin", *options, "--size", "64x48"]
    assert diff(*words) == 1
    advice = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  fix: "))
    assert diff(*words, *advice.rsplit(": ", 1)[1].split()) == 0, advice


def test_what_is_asked_wrongly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.fromarray(photo()).save(tmp_path / "a.png")
    (tmp_path / "b.bin").write_bytes(b"1234")
    for words, said in (
        (["a.png", "b.bin"], "a picture needs a description"),
        (["a.png", "b.bin", "--format", "nv12"], "size is missing"),
        (["c.png", "b.bin", "--format", "rgb", "--size", "4x4"], "no such file"),
        (["a.png", "b.bin", "--format", "rgb", "--size", "4x4", "--seconds", "-1"], "--seconds"),
    ):
        assert diff(*(tmp_path / w if "." in w else w for w in words)) == 2
        seen = capsys.readouterr().err
        assert said in seen and len(seen.strip().splitlines()) == 1
    assert diff(tmp_path / "a.png", tmp_path / "b.bin", "--format", "rgb", "--size", "64x48") == 1
    assert "nothing tried gives 4 bytes; the intended input has 9216" in capsys.readouterr().out


def test_a_stride_that_the_board_did_not_keep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.fromarray(photo()).save(tmp_path / "a.png")
    small = cv2.resize(photo(), (64, 48), interpolation=cv2.INTER_LINEAR)
    padded = np.zeros((48, 80, 3), np.uint8)
    padded[:, :64] = small
    words = [tmp_path / "a.png", tmp_path / "b.bin", "--format", "rgb", "--size", "64x48", "--stride", "240"]
    (tmp_path / "b.bin").write_bytes(padded.tobytes())
    assert diff(*words) == 0
    (tmp_path / "b.bin").write_bytes(small.tobytes())
    assert diff(*words) == 1
    assert "alignment: none at all reproduces all 9216 bytes" in capsys.readouterr().out.replace("DIFFERENT: ", "")


def test_a_resize_after_normalizing_is_not_taken_for_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.fromarray(photo()).save(tmp_path / "a.png")
    given = ["--format", "featuremap", "--size", "64x48", "--mean", "100", "--resize-order", "after-normalize"]
    assert main(["inputs", "prepare", str(tmp_path / "a.png"), *given, "-o", str(tmp_path / "p")]) == 0
    assert diff(tmp_path / "a.png", tmp_path / "p" / "0000.bin", *given) == 2
    assert "cannot be searched from a picture" in capsys.readouterr().err
    assert diff(tmp_path / "p", tmp_path / "p" / "0000.bin") == 0
