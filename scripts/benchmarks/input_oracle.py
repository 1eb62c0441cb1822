"""Makes correct and mistaken inputs of a board with OpenCV, Pillow and numpy alone, without qverify, so that qverify's
explanations can be checked independently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from PIL import Image

FLAGS = {"nearest": cv2.INTER_NEAREST, "linear": cv2.INTER_LINEAR, "cubic": cv2.INTER_CUBIC, "area": cv2.INTER_AREA}
PILLOW = {
    "nearest": Image.Resampling.NEAREST,
    "linear": Image.Resampling.BILINEAR,
    "cubic": Image.Resampling.BICUBIC,
    "area": Image.Resampling.BOX,
}
Change = Callable[[Any], Any]
Mistake = tuple[str, dict[str, Any]]  # its family, and the `changes` that fed() applies


def fed(rgb: Any, table: dict[str, Any], changes: dict[str, Any]) -> bytes:
    """Returns the bytes that a board is fed.

    table: a description as for described(); the library must be cv2, resize_dtype uint8 and fit stretch. changes: the
    steps and options that the board does differently."""
    x = changes.get("before", _same)(rgb)
    x = changes.get("resized", _resized)(x, tuple(int(n) for n in table["size"].split("x")), {**table, **changes})
    x = changes.get("after", _same)(x)
    x = changes.get("coloured", COLOUR[table["format"]])(x, {**table, **changes})
    parts = [changes.get("element", _same)(p) for p in (x if isinstance(x, list) else [x])]
    parts = [_aligned(p, int(changes.get("width_align", 1))) for p in parts]
    if changes.get("layout", table.get("layout", "NHWC")) == "NCHW" and table["format"] != "nv12":
        parts = [p.transpose(2, 0, 1) for p in parts]
    data = b"".join(np.ascontiguousarray(p).tobytes() for p in parts)
    return bytes(changes.get("bytes", _same)(data))


def _same(x: Any) -> Any:
    return x


def _shaped(x: Any) -> Any:
    return x if x.ndim == 3 else x[..., None]


def _resized(x: Any, size: tuple[int, int], table: dict[str, Any]) -> Any:
    return _shaped(cv2.resize(x, size, interpolation=FLAGS[table["interpolation"]]))


def _by_pillow(x: Any, size: tuple[int, int], table: dict[str, Any]) -> Any:
    image = Image.fromarray(x[..., 0] if x.shape[2] == 1 else x)
    return _shaped(np.asarray(image.resize(size, PILLOW[table["interpolation"]])))


def _in_float(x: Any, size: tuple[int, int], table: dict[str, Any]) -> Any:
    resized = _resized(np.float32(x), size, table)
    return resized if table["format"] == "featuremap" else np.clip(np.rint(resized), 0, 255).astype(np.uint8)


def _centre_crop(x: Any, size: tuple[int, int], table: dict[str, Any]) -> Any:
    (rows, columns), (width, height) = x.shape[:2], size
    if columns * height > rows * width:
        keep = rows * width // height
        x = x[:, (columns - keep) // 2 :][:, :keep]
    else:
        keep = columns * height // width
        x = x[(rows - keep) // 2 :][:keep]
    return _resized(np.ascontiguousarray(x), size, table)


def _letterbox(x: Any, size: tuple[int, int], table: dict[str, Any]) -> Any:
    ratio = min(size[0] / x.shape[1], size[1] / x.shape[0])
    inner = round(x.shape[1] * ratio), round(x.shape[0] * ratio)
    right, below = size[0] - inner[0], size[1] - inner[1]
    sides = (below // 2, below - below // 2, right // 2, right - right // 2)
    return _shaped(cv2.copyMakeBorder(_resized(x, inner, table), *sides, cv2.BORDER_CONSTANT, value=(114, 114, 114)))


def _nv12(x: Any, table: dict[str, Any]) -> list[Any]:
    height, width = x.shape[:2]
    flat = cv2.cvtColor(x, cv2.COLOR_RGB2YUV_I420).reshape(-1)
    y, u, v = np.split(flat, [height * width, height * width * 5 // 4])
    return _semi_planar(y.reshape(height, width), u, v, bool(table.get("vu")))


def _semi_planar(y: Any, u: Any, v: Any, vu: bool = False) -> list[Any]:
    pair = np.dstack([u.reshape(-1), v.reshape(-1)]).reshape(y.shape[0] // 2, y.shape[1])
    return [y, pair.reshape(-1, 2)[:, ::-1].reshape(pair.shape) if vu else pair]


def _by_matrix(kr: float, kb: float, full: bool, mean: bool) -> Callable[[Any, dict[str, Any]], list[Any]]:
    """Returns a function that converts RGB to NV12. full: luma and chroma unscaled; otherwise * 219 / 255 + 16 and
    * 224 / 255. The operations are in the order of INPUTS.md, because the order of float64 operations decides how an
    exact half is rounded."""

    def convert(x: Any, _: dict[str, Any]) -> list[Any]:
        real = x.astype(np.float64)
        small = cv2.resize(real, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA) if mean else real[::2, ::2]
        (y, _u, _v), (_y, u, v) = to_yuv(real), to_yuv(small)
        y, u, v = (np.clip(np.floor(p + 0.5), 0, 255).astype(np.uint8) for p in (y, u, v))
        return _semi_planar(y, u, v)

    def to_yuv(real: Any) -> tuple[Any, Any, Any]:
        r, g, b = np.moveaxis(real, -1, 0)
        y = kr * r + (1 - kr - kb) * g + kb * b
        u, v = (b - y) / (2 * (1 - kb)), (r - y) / (2 * (1 - kr))
        return (y, u + 128, v + 128) if full else (y * 219 / 255 + 16, u * 224 / 255 + 128, v * 224 / 255 + 128)

    return convert


def _featuremap(x: Any, table: dict[str, Any]) -> Any:
    return (np.float32(x) - _row(table["mean"])) * _row(table["scale"])


def _row(text: str) -> Any:
    return np.array([float(n) for n in text.split(",")], np.float32)


COLOUR: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "rgb": lambda x, _: x,
    "gray": lambda x, _: x,
    "bgr": lambda x, _: cv2.cvtColor(x, cv2.COLOR_RGB2BGR),
    "rgb_128": lambda x, _: (x.astype(np.int16) - 128).astype(np.int8),
    "nv12": _nv12,
    "featuremap": _featuremap,
}


def _aligned(x: Any, multiple: int) -> Any:
    """Returns x (rows, columns and channels, or rows of interleaved chroma) with rows padded to a multiple."""
    more = -x.shape[1] % multiple
    return np.pad(x, [(0, 0), (0, more)] + [(0, 0)] * (x.ndim - 2))


def mistakes(table: dict[str, Any]) -> dict[str, Mistake]:
    """Returns the mistakes that are possible with this description, by the name that qverify should report."""
    format_, own = table["format"], table["interpolation"]
    found: dict[str, Mistake] = {
        f"interpolation: {name} instead of {own}": ("interpolation", {"interpolation": name})
        for name in FLAGS
        if name != own
    }
    found |= {
        "resize library: pillow instead of cv2": ("resize-library", {"resized": _by_pillow}),
        "resize dtype: float32 instead of uint8": ("resize-dtype", {"resized": _in_float}),
        "fit: crop instead of stretch": ("fit", {"resized": _centre_crop}),
        "fit: letterbox filled with 114 instead of stretch": ("fit", {"resized": _letterbox}),
        "orientation: flipped left to right, after the resize": ("orientation", {"after": _flip(1)}),
        "orientation: flipped upside down, before the resize": ("orientation", {"before": _flip(0)}),
        "orientation: turned by 180 degrees, after the resize": ("orientation", {"after": _flip(-1)}),
        "orientation: turned by 90 degrees clockwise, before the resize": (
            "orientation",
            {"before": lambda x: _shaped(cv2.rotate(x, cv2.ROTATE_90_CLOCKWISE))},
        ),
        "off by one: one row too low, wrapped around": ("off-by-one", {"after": lambda x: np.roll(x, 1, axis=0)}),
        "off by one: one column too far left, the edge repeated": ("off-by-one", {"after": _left}),
        "alignment: width align 128": ("alignment", {"width_align": 128}),
    }
    if format_ == "nv12":
        found |= _of_nv12()
    else:
        found |= _of_layout(table)
    if format_ in ("rgb", "bgr"):
        other = format_[::-1]
        swap = {"coloured": COLOUR[other]}
        found[f"channel order: {other} instead of {format_}"] = ("channel-order", swap)
    if format_ == "rgb_128":
        found["-128: not subtracted, or twice with wrap-around (rgb_128)"] = ("offset-128", {"coloured": COLOUR["rgb"]})
        saturated = {"element": lambda x: cv2.subtract(x, (128, 128, 128, 128))}
        found["-128: subtracted twice, kept within -128..127 (rgb_128)"] = ("offset-128", saturated)
        found["signedness: unsigned, negative values as 0"] = ("signedness", {"element": lambda x: x.clip(0)})
    if format_ == "featuremap":
        found |= _of_featuremap(table)
    return found


def _flip(code: int) -> Change:
    return lambda x: _shaped(cv2.flip(x, code))


def _left(x: Any) -> Any:
    return np.concatenate([x[:, 1:], x[:, -1:]], axis=1)


def _of_layout(table: dict[str, Any]) -> dict[str, Mistake]:
    own = table.get("layout", "NHWC")
    other = "NCHW" if own == "NHWC" else "NHWC"
    if table["format"] == "gray":
        return {}
    return {f"layout: {other} instead of {own}": ("layout", {"layout": other})}


def _of_nv12() -> dict[str, Mistake]:
    return {
        "chroma order: nv21 instead of nv12": ("chroma-order", {"vu": True}),
        "range: full instead of limited": ("range", {"coloured": _by_matrix(0.299, 0.114, True, False)}),
        "matrix: bt709 instead of bt601, the rest as described": (
            "matrix",
            {"coloured": _by_matrix(0.2126, 0.0722, False, False)},
        ),
        "chroma siting: mean instead of top-left": (
            "chroma-siting",
            {"coloured": _by_matrix(0.299, 0.114, False, True)},
        ),
        "signedness: int8, values above 127 as 127": ("signedness", {"element": lambda x: np.minimum(x, 127)}),
        "endianness: the bytes of every 16-bit word reversed": (
            "endianness",
            {"bytes": lambda data: np.frombuffer(data, "<u2").astype(">u2").tobytes()},
        ),
    }


def _of_featuremap(table: dict[str, Any]) -> dict[str, Mistake]:
    mean, scale = _row(table["mean"]), _row(table["scale"])
    return {
        "channel order: pixels bgr instead of rgb": ("channel-order", {"after": lambda x: x[..., ::-1]}),
        "normalization: mean not subtracted": ("normalization", {"coloured": lambda x, _: np.float32(x) * scale}),
        "normalization: mean and scale applied twice": (
            "normalization",
            {"coloured": lambda x, _: ((np.float32(x) - mean) * scale - mean) * scale},
        ),
        "normalization: left out": ("normalization", {"coloured": lambda x, _: np.float32(x)}),
        "normalization: pixels divided by 255 before mean and scale": (
            "normalization",
            {"coloured": lambda x, _: (np.float32(x) / np.float32(255) - mean) * scale},
        ),
        "endianness: big-endian elements": ("endianness", {"element": lambda x: x.astype(">f4")}),
        "element type: float16 instead of float32": ("element-type", {"element": lambda x: x.astype("<f2")}),
        "signedness: unsigned, negative values as 0": ("signedness", {"element": lambda x: np.maximum(x, 0)}),
    }
