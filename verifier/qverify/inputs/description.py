"""Description: how the bytes of one model input are made. It has a value for every step of INPUTS.md, and is checked
before any file is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, prod

import numpy as np

from qverify.errors import UsageError
from qverify.inputs.colour import MODES, RANGES, ROUNDINGS, SITINGS, Colour
from qverify.inputs.formats import (
    FITS,
    FORMATS,
    INTEGER_RANGES,
    INTERPOLATIONS,
    LAYOUTS,
    LIBRARIES,
    MAX_BYTES,
    MAX_NUMBER,
    MAX_SAMPLES,
    MAX_SIDE,
    REAL,
    SIGNED,
    TRAINING,
    YUV420,
)
from qverify.inputs.profiles import legal


@dataclass(frozen=True, slots=True)
class Plane:
    """A part of a buffer. shape: shape of the valid elements. aligned_shape: shape of the stored elements. offset: in
    bytes from the start of the buffer."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    aligned_shape: tuple[int, ...]
    offset: int

    @property
    def size_bytes(self) -> int:
        return prod(self.aligned_shape) * np.dtype(self.dtype).itemsize

    @property
    def strides_bytes(self) -> tuple[int, ...]:
        item = np.dtype(self.dtype).itemsize
        return tuple(item * prod(self.aligned_shape[i + 1 :]) for i in range(len(self.aligned_shape)))


@dataclass(frozen=True, slots=True)
class Description:
    """The description of how the bytes of an input are made. Raises UsageError for values that do not fit.

    Attributes:
        format: format of the bytes.
        size: (width, height) in pixels.
        train: format that the network was trained on, or "" if it does not matter.
        colour: the colour conversion.
        library, interpolation, resize_dtype: how pictures are resized.
        fit: how pictures of another shape are fitted.
        fill: value around a letterboxed picture, 0..255.
        mean, scale: one number per channel, or one for all.
        rounding: how values are rounded when they are quantized.
        quantize: (scale, zero point), or None.
        quantize_dtype: type of a quantized featuremap.
        roi: x, y, width, height in pixels of the picture, which are cut out before the fit, or None.
        source: (width, height) of the frames of a resizer input, or None. The board cuts the ROI out of a frame and
            resizes it to `size`.
        resize_order: whether pictures are resized before or after (x - mean) * scale.
        stride: bytes of a stored row of the first plane, or 0 to derive them from width_align.
        profile: the vendor whose pairs of formats are allowed, or "". Its defaults are filled in by
            description_tables.parse_description().
        layout: NHWC or NCHW.
        width_align, height_align, innermost_align: multiples to which dimensions are padded, in elements.
        buffer_align: multiple to which the buffer is padded, in bytes.
    """

    format: str
    size: tuple[int, int]
    train: str = ""
    colour: Colour = field(default_factory=Colour)
    library: str = "cv2"
    interpolation: str = "linear"
    resize_dtype: str = "uint8"
    fit: str = "stretch"
    fill: int = 0
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    rounding: str = "half-even"
    quantize: tuple[float, int] | None = None
    quantize_dtype: str = "int8"
    roi: tuple[int, int, int, int] | None = None
    source: tuple[int, int] | None = None
    resize_order: str = "before-normalize"
    stride: int = 0
    profile: str = ""
    layout: str = "NHWC"
    width_align: int = 1
    height_align: int = 1
    innermost_align: int = 1
    buffer_align: int = 1

    def __post_init__(self) -> None:
        for name, value, known in (
            ("format", self.format, FORMATS),
            ("train", self.train, ("", *TRAINING)),
            ("colour mode", self.colour.mode, MODES),
            ("colour range", self.colour.range, RANGES),
            ("siting", self.colour.siting, SITINGS),
            ("rounding", self.rounding, tuple(ROUNDINGS)),
            ("colour rounding", self.colour.rounding, tuple(ROUNDINGS)),
            ("resize library", self.library, LIBRARIES),
            ("interpolation", self.interpolation, INTERPOLATIONS),
            ("resize dtype", self.resize_dtype, ("uint8", "float32")),
            ("resize order", self.resize_order, ("before-normalize", "after-normalize")),
            ("fit", self.fit, FITS),
            ("layout", self.layout, LAYOUTS),
            ("quantize dtype", self.quantize_dtype, ("int8", "uint8", "int16")),
        ):
            if value not in known:
                raise UsageError(f"input {name} {value!r}: wanted one of {', '.join(k for k in known if k)}")
        self._check_numbers()
        self._check_pair()

    def _check_pair(self) -> None:
        pairs = legal(self.profile)
        known = pairs.get(self.train, ()) if self.train else [f for row in pairs.values() for f in row]
        if self.format not in known:
            table = "; ".join(f"{train}: {', '.join(formats)}" for train, formats in pairs.items())
            chip = f"no {self.profile} chip" if self.profile else "no chip"
            raise UsageError(
                f"{chip} converts {self.format} to {self.train or 'anything'}; possible (train: formats): {table}"
            )

    def _check_numbers(self) -> None:
        for width, height in {self.size, self.frame}:
            self._check_size(width, height)
        if self.source is not None and self.format in REAL:
            raise UsageError(f"source: a resizer takes 8-bit pictures, not {self.format}")
        if not 0 <= self.fill <= 255:
            raise UsageError(f"fill {self.fill}: wanted 0 to 255")
        self._check_alignments_and_normalization()

    def _check_size(self, width: int, height: int) -> None:
        longest = MAX_SAMPLES if height == 1 and self.format in REAL else MAX_SIDE
        if not (0 < width <= longest and 0 < height <= MAX_SIDE):
            raise UsageError(f"input size {width}x{height}: wanted 1x1 to {longest}x{MAX_SIDE}")
        if (width, height) == self.frame and self.format in YUV420 and (width % 2 or height % 2):
            raise UsageError(
                f"{self.format} of {width}x{height}: its chroma covers 2x2 pixels; both sides must be even"
            )

    def _check_alignments_and_normalization(self) -> None:
        for name in ("width_align", "height_align", "innermost_align", "buffer_align"):
            if not 1 <= getattr(self, name) <= 1 << 16:
                raise UsageError(f"{name} {getattr(self, name)}: wanted 1 to 65536")
        for name in ("mean", "scale"):
            wanted = 1 if self.gray else 3
            if len(getattr(self, name)) not in (1, wanted):
                raise UsageError(f"{name} {getattr(self, name)}: wanted one number{f', or {wanted}' * (wanted > 1)}")
        if self.quantize is not None and not 0 < self.quantize[0] < inf:
            raise UsageError(f"quantize {self.quantize[0]}: wanted a finite scale above 0")
        if not all(abs(v) <= MAX_NUMBER for v in (*self.mean, *self.scale)) or 0 in self.scale:
            raise UsageError(f"mean {self.mean}, scale {self.scale}: wanted numbers within 2^60, and no scale of 0")
        if self.resize_order != "before-normalize" and self.format not in REAL:
            raise UsageError(f"resize order {self.resize_order}: {self.format} is not normalized before it is stored")
        self._check_quantize()
        self._check_bytes()

    def _check_quantize(self) -> None:
        if self.quantize is None:
            return
        if self.format not in ("featuremap", "raw_s16"):
            raise UsageError(f"quantize: {self.format} contains no quantized values; use it for featuremap and raw_s16")
        low, high = INTEGER_RANGES["int16" if self.format == "raw_s16" else self.quantize_dtype]
        if not low <= self.quantize[1] <= high:
            raise UsageError(f"quantize: zero point {self.quantize[1]} is not within {low}..{high}")

    def _check_bytes(self) -> None:
        if (size := self.size_bytes) > MAX_BYTES:
            raise UsageError(f"{self.format} with these alignments is {size} bytes; at most {MAX_BYTES} are allowed")
        if self.roi is not None and (min(self.roi) < 0 or min(self.roi[2:]) < 1):
            raise UsageError(f"roi {self.roi}: wanted x,y,width,height with a width and height of at least 1")

    @property
    def frame(self) -> tuple[int, int]:
        """The (width, height) of the picture that the bytes contain."""
        return self.source or self.size

    @property
    def gray(self) -> bool:
        return self.format.startswith("gray") or (self.format in REAL and self.train == "gray")

    @property
    def channels(self) -> int:
        return 1 if self.gray else 4 if self.format in ("rgba", "bgra") else 3

    @property
    def dtype(self) -> str:
        if self.format == "raw_s16":
            return "int16"
        if self.format in REAL:
            return "float32" if self.quantize is None or self.format == "raw_f32" else self.quantize_dtype
        return "int8" if self.format in SIGNED else "uint8"

    @property
    def planes(self) -> list[Plane]:
        shapes: list[tuple[str, tuple[int, ...], tuple[int, ...]]]
        width, height = self.frame
        wide, high = self._columns(), _round_up(height, self.height_align)
        if self.format in YUV420:
            wide, high = _round_up(wide, 2), _round_up(high, 2)
            half, small = (height // 2, width // 2), (high // 2, wide // 2)
            shapes = [("y", (height, width), (high, wide))]
            if self.format == "i420":
                shapes += [("u", half, small), ("v", half, small)]
            else:
                shapes += [("uv" if self.format == "nv12" else "vu", (*half, 2), (*small, 2))]
        elif self.layout == "NHWC":
            inner = _round_up(self.channels, self.innermost_align)
            shapes = [("data", (height, width, self.channels), (high, wide, inner))]
        else:
            shapes = [
                ("data", (self.channels, height, width), (self.channels, high, _round_up(wide, self.innermost_align)))
            ]
        planes, offset = [], 0
        for name, shape, aligned in shapes:
            planes.append(Plane(name, self.dtype, shape, aligned, offset))
            offset += planes[-1].size_bytes
        return planes

    def _columns(self) -> int:
        """Returns the number of stored columns, which follows from the stride if one is given. Raises UsageError if the
        stride is not the size of a possible row."""
        width, aligned = self.frame[0], _round_up(self.frame[0], self.width_align)
        if not self.stride:
            return aligned
        inner = _round_up(self.channels, self.innermost_align) if self.layout == "NHWC" else 1
        each = np.dtype(self.dtype).itemsize * (1 if self.format in YUV420 else inner)
        columns, rest = divmod(self.stride, each)
        odd = self.format in YUV420 and columns % 2
        if rest or columns < width or odd or columns % self.width_align:
            raise UsageError(
                f"stride {self.stride}: wanted a multiple of {each * (2 if self.format in YUV420 else 1)} bytes, at least {width * each}"
            )
        return columns

    @property
    def size_bytes(self) -> int:
        last = self.planes[-1]
        return _round_up(last.offset + last.size_bytes, self.buffer_align)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
