"""`inputs diff` names the mistake: the board's bytes are made by OpenCV, Pillow and numpy alone, never by our own code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from qverify.inputs import difference, hypotheses
from qverify.inputs.description_tables import parse_description
from qverify.inputs.difference import InputDifference, explain_difference
from qverify.inputs.reproduction import Start

from tests.plain.inputs_by_others import MEAN, SCALE, by_formula, gray, half_up, i420, nv12, photo, small

ROOT = Path(__file__).resolve().parents[2]
SIZE = {"size": "64x48"}
REAL = {"format": "featuremap", "train": "rgb", "mean": "120,110,100", "scale": "0.017,0.018,0.019"}
BT601 = {"format": "nv12", "mode": "bt601", "range": "limited"}


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


def searched(table: dict[str, Any], data: bytes, **more: Any) -> InputDifference:
    wanted = parse_description({**table, **SIZE}, "test")
    pixels = gray(photo())[..., None] if wanted.gray else photo()
    return explain_difference(Start("picture", pixels, wanted, photo() if wanted.gray else None), data, **more)


def listed(found: InputDifference) -> list[str]:
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


def test_a_search_that_is_cut_short_says_so() -> None:
    found = searched({"format": "rgb"}, bytes(64 * 48 * 3), seconds=0.0)
    assert not found.exact and "single mistakes: the time limit was reached" in found.not_searched[0]


def test_what_explained_a_frame_is_tried_first_on_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    data = small(photo())[..., ::-1].tobytes()
    first = searched({"format": "rgb"}, data)
    monkeypatch.setattr(difference, "list_single_mistakes", lambda pages, intended: iter(()))
    known = [one for group in first.exact for one in group]
    assert listed(searched({"format": "rgb"}, data, known=known)) == listed(first)
