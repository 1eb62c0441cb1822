"""`inputs diff`: the board's bytes are made by OpenCV, Pillow and numpy alone, never by our own code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from qverify.cli.main import main
from qverify.inputs import difference, hypotheses
from qverify.inputs.description_tables import described
from qverify.inputs.difference import Difference, explain_difference
from qverify.inputs.reproduction import Start

ROOT = Path(__file__).resolve().parents[2]
SIZE = {"size": "64x48"}
REAL = {"format": "featuremap", "train": "rgb", "mean": "120,110,100", "scale": "0.017,0.018,0.019"}
MEAN, SCALE = np.float32([120, 110, 100]), np.float32([0.017, 0.018, 0.019])
BT601 = {"format": "nv12", "mode": "bt601", "range": "limited"}


def photo() -> np.ndarray:
    """Smooth with noise, no symmetry, every channel of its own."""
    generator = np.random.Generator(np.random.PCG64(7))
    smooth = cv2.resize(
        generator.integers(0, 256, (7, 9, 3), np.uint8), (150, 100), interpolation=cv2.INTER_CUBIC
    ).astype(np.int16)
    return (smooth + generator.integers(-9, 10, smooth.shape)).clip(0, 255).astype(np.uint8)


def small(rgb: np.ndarray, how: int = cv2.INTER_LINEAR) -> np.ndarray:
    return cv2.resize(rgb, (64, 48), interpolation=how)


def gray(rgb: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(rgb).convert("L"))


def i420(rgb: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    flat = cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV_I420).reshape(-1)
    y, u, v = np.split(flat, [64 * 48, 64 * 60])
    return y.reshape(48, 64), u.reshape(24, 32), v.reshape(24, 32)


def nv12(y: np.ndarray, u: np.ndarray, v: np.ndarray) -> bytes:
    return y.tobytes() + np.dstack([u, v]).tobytes()


def by_formula(rgb: np.ndarray, kr: float, kb: float, full: bool, mean: bool, how: Callable[[Any], Any]) -> bytes:
    """INPUTS.md section 2, on its own."""

    def planes(x: np.ndarray) -> list[np.ndarray]:
        r, g, b = np.moveaxis(x.astype(np.float64), -1, 0)
        y = kr * r + (1 - kr - kb) * g + kb * b
        u, v = (b - y) / (2 * (1 - kb)), (r - y) / (2 * (1 - kr))
        made = [y, u + 128, v + 128] if full else [y * 219 / 255 + 16, u * 224 / 255 + 128, v * 224 / 255 + 128]
        return [how(p).clip(0, 255).astype(np.uint8) for p in made]

    blocks = rgb.reshape(24, 2, 32, 2, 3).astype(np.float64)
    coarse = blocks.mean(axis=(1, 3)) if mean else blocks[:, 0, :, 0]
    return nv12(planes(rgb)[0], *planes(coarse)[1:])


def half_up(x: np.ndarray) -> np.ndarray:
    return np.floor(x + 0.5)


def real(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32) - MEAN) * SCALE


def quantized(x: np.ndarray, zero: int) -> bytes:
    return (np.rint(real(small(x)).astype(np.float64) / 0.02) + zero).clip(-128, 127).astype(np.int8).tobytes()


def padded(x: np.ndarray, to: int, mode: str = "constant") -> bytes:
    return np.pad(x, [(0, 0), (0, to - x.shape[1]), (0, 0)], mode=mode).tobytes()  # type: ignore[call-overload]


def boxed(rgb: np.ndarray) -> bytes:
    inner = cv2.resize(rgb, (64, 43), interpolation=cv2.INTER_LINEAR)
    return cv2.copyMakeBorder(inner, 2, 3, 0, 0, cv2.BORDER_CONSTANT, value=(114, 114, 114)).tobytes()


def lowered(x: np.ndarray) -> bytes:
    return np.concatenate([x[:1], x[:-1]]).tobytes()


def chosen(rgb: np.ndarray) -> bytes:
    return small(np.ascontiguousarray(rgb[:, 8:141])).tobytes()  # 100 * 64 // 48 = 133 columns, from (150 - 133) // 2


PLANTED: list[tuple[str, dict[str, Any], Callable[[np.ndarray], bytes], str]] = [
    ("channel-order", {"format": "rgb"}, lambda x: cv2.cvtColor(small(x), cv2.COLOR_RGB2BGR).tobytes(), "channel order: bgr instead of rgb"),
    ("channel-order", {"format": "rgba"}, lambda x: np.dstack([np.full((48, 64), 255, np.uint8), small(x)]).tobytes(), "channel order: argb instead of rgba"),
    ("channel-order", {"format": "nv12"}, lambda x: nv12(*i420(np.ascontiguousarray(small(x)[..., ::-1]))), "channel order: red and blue exchanged before YUV"),
    ("channel-order", REAL, lambda x: real(small(x)[..., ::-1]).tobytes(), "channel order: pixels bgr instead of rgb"),
    ("channel-order", REAL, lambda x: real(small(x))[..., ::-1].tobytes(), "channel order: bgr instead of rgb, each with its own mean and scale"),
    ("chroma-order", {"format": "nv12"}, lambda x: (lambda y, u, v: nv12(y, v, u))(*i420(small(x))), "chroma order: nv21 instead of nv12"),
    ("chroma-order", {"format": "i420"}, lambda x: cv2.cvtColor(small(x), cv2.COLOR_RGB2YUV_YV12).tobytes(), "chroma order: yv12 instead of i420"),
    ("layout", {"format": "rgb"}, lambda x: small(x).transpose(2, 0, 1).tobytes(), "layout: NCHW instead of NHWC"),
    ("layout", {"format": "gray"}, lambda x: small(gray(x)).T.tobytes(), "layout: WH instead of HW, columns stored one after another"),
    ("normalization", REAL, lambda x: ((real(small(x)) - MEAN) * SCALE).tobytes(), "normalization: mean and scale applied twice"),
    ("normalization", REAL, lambda x: small(x).astype(np.float32).tobytes(), "normalization: left out"),
    ("normalization", REAL, lambda x: (small(x).astype(np.float32) * SCALE - MEAN).tobytes(), "normalization: scale first, then mean"),
    ("normalization", REAL, lambda x: (((small(x) - MEAN) - MEAN) * SCALE).tobytes(), "normalization: mean subtracted twice"),
    ("normalization", REAL, lambda x: ((small(x) - MEAN) / SCALE).tobytes(), "normalization: divided by scale, not multiplied"),
    ("normalization", {"format": "rgb"}, lambda x: (small(x) / 255.0).astype(np.uint8).tobytes(), "normalization: pixels divided by 255, then stored as whole bytes"),
    ("offset-128", {"format": "rgb_128"}, lambda x: small(x).tobytes(), "-128: not subtracted, or twice with wrap-around (rgb_128)"),
    ("offset-128", {"format": "rgb_128"}, lambda x: (small(x).astype(int) - 256).clip(-128, 127).astype(np.int8).tobytes(), "-128: subtracted twice, kept within -128..127 (rgb_128)"),
    ("offset-128", {"format": "rgb"}, lambda x: (small(x).astype(int) - 128).astype(np.int8).tobytes(), "-128: subtracted, though the format is rgb"),
    ("range", BT601, lambda x: by_formula(small(x), 0.299, 0.114, True, False, half_up), "range: full instead of limited"),
    ("range", {"format": "rgb"}, lambda x: np.rint(small(x) * (219 / 255) + 16).astype(np.uint8).tobytes(), "range: RGB compressed to 16..235"),
    ("matrix", BT601, lambda x: by_formula(small(x), 0.2126, 0.0722, False, False, half_up), "matrix: bt709 instead of bt601, the rest as described"),
    ("matrix", {"format": "nv12"}, lambda x: by_formula(small(x), 0.299, 0.114, True, False, np.trunc), "matrix: mode horizon instead of opencv, with its range, siting and rounding"),
    ("chroma-siting", BT601, lambda x: by_formula(small(x), 0.299, 0.114, False, True, half_up), "chroma siting: mean instead of top-left"),
    ("rounding", BT601, lambda x: by_formula(small(x), 0.299, 0.114, False, False, np.trunc), "rounding of colour: truncate instead of half-away"),
    ("rounding", {"format": "rgb", "resize_dtype": "float32"}, lambda x: small(x.astype(np.float32)).astype(np.uint8).tobytes(), "rounding after the resize: truncate instead of half-even"),
    ("interpolation", {"format": "bgr"}, lambda x: small(x, cv2.INTER_AREA)[..., ::-1].tobytes(), "interpolation: area instead of linear"),
    ("resize-library", {"format": "rgb"}, lambda x: np.asarray(Image.fromarray(x).resize((64, 48), Image.Resampling.BILINEAR)).tobytes(), "resize library: pillow instead of cv2"),
    ("resize-dtype", {"format": "rgb"}, lambda x: np.rint(small(x.astype(np.float32))).astype(np.uint8).tobytes(), "resize dtype: float32 instead of uint8"),
    ("fit", {"format": "rgb"}, chosen, "fit: crop instead of stretch"),
    ("fit", {"format": "rgb"}, boxed, "fit: letterbox filled with 114 instead of stretch"),
    ("alignment", {"format": "rgb"}, lambda x: padded(small(x), 128), "alignment: width align 128"),
    ("alignment", {"format": "rgb"}, lambda x: padded(small(x), 96), "alignment: stored 96 elements wide"),
    ("alignment", {"format": "rgb", "width_align": 96}, lambda x: small(x).tobytes(), "alignment: none at all"),
    ("alignment", {"format": "rgb", "width_align": 96}, lambda x: small(x).tobytes().ljust(96 * 48 * 3, b"\0"), "alignment: rows without their stride, the rest at the end"),
    ("padding", {"format": "rgb", "width_align": 96}, lambda x: padded(small(x), 96, "edge"), "padding: the last column and row repeated instead of zero"),
    ("off-by-one", {"format": "rgb"}, lambda x: lowered(small(x)), "off by one: one row too low, the edge repeated"),
    ("off-by-one", {"format": "rgb"}, lambda x: np.roll(small(x), -1, axis=1).tobytes(), "off by one: one column too far left, wrapped around"),
    ("byte-offset", {"format": "rgb"}, lambda x: b"\0" + small(x).tobytes()[:-1], "byte offset: 1 byte too late, zero filled"),
    ("signedness", {"format": "rgb"}, lambda x: np.minimum(small(x), 127).astype(np.int8).tobytes(), "signedness: int8, values above 127 as 127"),
    ("signedness", {"format": "rgb_128"}, lambda x: (small(x).astype(int) - 128).clip(0).astype(np.uint8).tobytes(), "signedness: unsigned, negative values as 0"),
    ("endianness", REAL, lambda x: real(small(x)).astype(">f4").tobytes(), "endianness: big-endian elements"),
    ("endianness", {"format": "rgba"}, lambda x: np.dstack([small(x), np.full((48, 64), 255, np.uint8)])[..., ::-1].tobytes(), "endianness: the bytes of every 32-bit word reversed"),
    ("orientation", {"format": "rgb"}, lambda x: small(x)[:, ::-1].tobytes(), "orientation: flipped left to right, after the resize"),
    ("orientation", {"format": "rgb"}, lambda x: small(cv2.rotate(x, cv2.ROTATE_90_CLOCKWISE)).tobytes(), "orientation: turned by 90 degrees clockwise, before the resize"),
    ("element-type", REAL, lambda x: real(small(x)).astype("<f2").tobytes(), "element type: float16 instead of float32"),
    ("element-type", REAL, lambda x: small(x).tobytes(), "element type: pixels as uint8 instead of featuremap"),
    ("quantization", REAL | {"quantize": [0.02, -9]}, lambda x: quantized(x, 0), "quantization: zero point left out"),
    ("quantization", REAL | {"quantize": [0.02, -9]}, lambda x: quantized(x, -18), "quantization: zero point added twice"),
    ("roi", {"format": "rgb", "roi": "10,20,100,60"}, lambda x: small(x).tobytes(), "roi: the whole picture"),
    ("length", {"format": "rgb"}, lambda x: small(x).tobytes()[:-70], "length: the last 70 bytes are missing"),
    ("gray-conversion", {"format": "gray"}, lambda x: small(cv2.cvtColor(x, cv2.COLOR_RGB2GRAY)).tobytes(), "gray conversion: OpenCV's rounding instead of Pillow's"),
    ("gray-conversion", {"format": "gray"}, lambda x: small(x[..., 1]).tobytes(), "gray conversion: green alone"),
]  # fmt: skip


def numpy_header(rows: int) -> bytes:
    """Of an array that is not there."""
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows}, 3, 3), }}"
    return b"\x93NUMPY\x01\x00v\x00" + text.ljust(117).encode() + b"\n123"


def searched(table: dict[str, Any], data: bytes, **more: Any) -> Difference:
    wanted = described({**table, **SIZE}, "test")
    pixels = gray(photo())[..., None] if wanted.gray else photo()
    return explain_difference(Start("picture", pixels, wanted, photo() if wanted.gray else None), data, **more)


def listed(found: Difference) -> list[str]:
    return [one.said for group in found.exact for one in group]


@pytest.mark.parametrize(("family", "table", "board", "said"), PLANTED, ids=[row[3] for row in PLANTED])
def test_a_planted_mistake_is_named(
    family: str, table: dict[str, Any], board: Callable[[np.ndarray], bytes], said: str
) -> None:
    found = searched(table, board(photo()))
    assert said in listed(found), (listed(found), found.nearest)
    assert len(found.exact) <= 2 and not found.equal and found.nearest is None and not found.not_searched
    assert family in {c.family for group in found.exact for one in group for c in one.causes}


def test_every_hypothesis_is_a_page_with_a_planted_mistake_and_a_row_in_the_document() -> None:
    names = [page.NAME for page in hypotheses.pages()]
    text = (ROOT / "verifier" / "INPUTS.md").read_text()
    rows = [line.split("|")[1].strip(" `") for line in text.splitlines() if line.startswith("| `")]
    assert {row[0] for row in PLANTED} == set(names) <= set(rows)
    for page in hypotheses.pages():
        stem = page.__name__.rsplit(".", 1)[-1]  # type: ignore[attr-defined]
        assert stem.replace("_", "-") == page.NAME and page.__doc__ and "\n" not in page.__doc__


@pytest.mark.parametrize(
    ("table", "board", "causes"),
    [
        (
            {"format": "rgb"},
            lambda x: small(x, cv2.INTER_CUBIC)[::-1, :, ::-1].tobytes(),
            {"channel order: bgr instead of rgb", "interpolation: cubic instead of linear"},
        ),
        (
            {"format": "nv12"},
            lambda x: (lambda y, u, v: nv12(y, v, u))(*i420(small(x, cv2.INTER_AREA))),
            {"chroma order: nv21 instead of nv12", "interpolation: area instead of linear"},
        ),
        (
            REAL,
            lambda x: real(small(x)[..., ::-1]).transpose(2, 0, 1).tobytes(),
            {"channel order: pixels bgr instead of rgb", "layout: NCHW instead of NHWC"},
        ),
    ],
)
def test_two_mistakes_are_named(table: dict[str, Any], board: Callable[[np.ndarray], bytes], causes: set[str]) -> None:
    data = board(photo())
    if table == {"format": "rgb"}:  # three of them: flipped besides
        found = searched(table, data)
        assert not found.exact and found.nearest is not None and found.nearest[1].mean_abs > 0
        data = np.frombuffer(data, np.uint8).reshape(48, 64, 3)[::-1].tobytes()
    found = searched(table, data)
    assert causes in [{c.said for c in one.causes} for group in found.exact for one in group]
    assert all(len(one.causes) == 2 for group in found.exact for one in group)


def test_equal_and_one_byte_off_and_noise() -> None:
    data = small(photo()).tobytes()
    assert searched({"format": "rgb"}, data).equal
    off = bytearray(data)
    off[(10 * 64 + 20) * 3 + 1] ^= 4
    found = searched({"format": "rgb"}, bytes(off))
    assert not found.equal and not found.exact and found.nearest is not None
    one, rest = found.nearest
    assert one.causes == () and rest.max_abs == 4 and not rest.unrelated and rest.equal == 1 - 1 / len(data)
    assert rest.first == {"plane": "data", "row": 10, "column": 20, "channel": 1}
    for table in ({"format": "rgb"}, {"format": "nv12"}, REAL):
        size = len(small(photo()).tobytes()) * (4 if table is REAL else 1) // (2 if table["format"] == "nv12" else 1)
        found = searched(table, np.random.Generator(np.random.PCG64(1)).bytes(size))
        assert not found.equal and not found.exact and found.nearest is not None and found.nearest[1].unrelated


def test_the_nearest_of_two_mistakes_and_noise_is_those_two() -> None:
    noisy = small(photo(), cv2.INTER_AREA)[:, ::-1].astype(int)
    noisy[::5, ::7] += 1
    found = searched({"format": "rgb"}, noisy.clip(0, 255).astype(np.uint8).tobytes())
    assert not found.exact and found.nearest is not None
    assert [c.family for c in found.nearest[0].causes] == ["interpolation", "orientation"]
    assert found.nearest[1].max_abs == 1


def test_only_the_padding_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.fromarray(photo()).save(tmp_path / "a.png")
    rows = np.pad(small(photo()).reshape(48, -1), [(0, 0), (0, 96)])
    rows[:, 192:] = np.random.Generator(np.random.PCG64(2)).integers(0, 256, (48, 96))
    rows.tofile(tmp_path / "b.bin")
    words = ["inputs", "diff", str(tmp_path / "a.png"), str(tmp_path / "b.bin"), "--format", "rgb", "--size", "64x48"]
    assert main([*words, "--width-align", "96"]) == 1
    assert "only the padding differs: as described, every valid element is equal" in capsys.readouterr().out


def test_a_search_that_is_cut_short_says_so() -> None:
    found = searched({"format": "rgb"}, bytes(64 * 48 * 3), seconds=0.0)
    assert not found.exact and "single mistakes: the time limit was reached" in found.not_searched[0]


def test_what_explained_a_frame_is_tried_first_on_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    data = small(photo())[..., ::-1].tobytes()
    first = searched({"format": "rgb"}, data)
    monkeypatch.setattr(difference, "_singles", lambda intended: iter(()))
    known = [one for group in first.exact for one in group]
    assert listed(searched({"format": "rgb"}, data, known=known)) == listed(first)


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
