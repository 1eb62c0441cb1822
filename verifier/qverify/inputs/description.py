"""What one model input's bytes are made by: every step of INPUTS.md as a value, checked before anything is read."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any

from qverify.errors import UsageError
from qverify.inputs.colour import MODES, PRESETS, RANGES, ROUNDINGS, SITINGS, Colour

YUV420 = ("nv12", "nv21", "i420")
BYTES = ("yuv444", "rgb", "bgr", "rgba", "bgra", "gray")
SIGNED = ("yuv444_128", "rgb_128", "bgr_128", "gray_128")  # the byte less 128, as int8
REAL = ("featuremap", "raw_f32", "raw_s16")
FORMATS = (*YUV420, *BYTES, *SIGNED, *REAL)
TRAINING = ("rgb", "bgr", "gray", "yuv444", "featuremap")
# Which formats a chip turns into which training format (VENDORS: input_type_rt, input_type_train).
LEGAL = {
    "yuv444": ("nv12", "nv21", "i420", "yuv444", "yuv444_128"),
    "rgb": (*YUV420, "yuv444", "yuv444_128", "rgb", "bgr", "rgba", "bgra", "rgb_128", "bgr_128", *REAL),
    "bgr": (*YUV420, "yuv444", "yuv444_128", "rgb", "bgr", "rgba", "bgra", "rgb_128", "bgr_128", *REAL),
    "gray": ("gray", "gray_128", *REAL),
    "featuremap": REAL,
}
FITS = ("stretch", "crop", "letterbox", "letterbox-top-left")
LIBRARIES = ("cv2", "pillow")
INTERPOLATIONS = ("nearest", "linear", "cubic", "area")
LAYOUTS = ("NHWC", "NCHW")
LARGEST_NUMBER = 2.0**60
LARGEST = 1 << 15  # pixels a side


@dataclass(frozen=True, slots=True)
class Description:
    """format: of the bytes. train: what the network was trained on; "" where it does not matter. size: (width, height) in
    pixels. fill: of a letterbox, 0..255. mean, scale: a channel, or one for all. quantize: (scale, zero point) or None.
    quantize_dtype: of a quantized featuremap. roi: x, y, width, height in pixels of the picture, cut out before the fit.
    source: (width, height) of the frames of a resizer input: the board cuts the roi out of them and makes `size` of it.
    profile: the vendor whose pairs of formats count; its defaults are filled in by described().
    width_align, height_align, innermost_align: multiples, in elements. buffer_align: multiple of the whole, in bytes."""

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
            ("fit", self.fit, FITS),
            ("layout", self.layout, LAYOUTS),
            ("quantize dtype", self.quantize_dtype, ("int8", "uint8", "int16")),
        ):
            if value not in known:
                raise UsageError(f"input {name} {value!r}: wanted one of {', '.join(k for k in known if k)}")
        self._check_numbers()
        self._check_pair()

    def _check_pair(self) -> None:
        from qverify.inputs.profiles import legal

        pairs = legal(self.profile)
        if self.train and self.format not in pairs.get(self.train, ()):
            table = "; ".join(f"{train}: {', '.join(formats)}" for train, formats in pairs.items())
            whose = f"no {self.profile} chip" if self.profile else "no chip"
            raise UsageError(f"{whose} turns {self.format} into {self.train}; what can be (train: formats): {table}")

    def _check_numbers(self) -> None:
        for width, height in {self.size, self.frame}:
            self._check_size(width, height)
        if self.source is not None and self.format in REAL:
            raise UsageError(f"source: a resizer takes 8-bit pictures, not {self.format}")
        if not 0 <= self.fill <= 255:
            raise UsageError(f"fill {self.fill}: wanted 0 to 255")
        self._check_rest()

    def _check_size(self, width: int, height: int) -> None:
        if not (0 < width <= LARGEST and 0 < height <= LARGEST):
            raise UsageError(f"input size {width}x{height}: wanted 1x1 to {LARGEST}x{LARGEST}")
        if (width, height) == self.frame and self.format in YUV420 and (width % 2 or height % 2):
            raise UsageError(
                f"{self.format} of {width}x{height}: its chroma covers 2x2 pixels; both sides must be even"
            )

    def _check_rest(self) -> None:
        for name in ("width_align", "height_align", "innermost_align", "buffer_align"):
            if not 1 <= getattr(self, name) <= 1 << 16:
                raise UsageError(f"{name} {getattr(self, name)}: wanted 1 to 65536")
        for name in ("mean", "scale"):
            wanted = 1 if self.gray else 3
            if len(getattr(self, name)) not in (1, wanted):
                raise UsageError(f"{name} {getattr(self, name)}: wanted one number{f', or {wanted}' * (wanted > 1)}")
        if self.quantize is not None and not 0 < self.quantize[0] < inf:
            raise UsageError(f"quantize {self.quantize[0]}: wanted a finite scale above 0")
        if not all(abs(v) <= LARGEST_NUMBER for v in (*self.mean, *self.scale)):
            raise UsageError(f"mean {self.mean}, scale {self.scale}: wanted numbers within 2^60")
        if self.roi is not None and (min(self.roi) < 0 or min(self.roi[2:]) < 1):
            raise UsageError(f"roi {self.roi}: wanted x,y,width,height with a width and height of at least 1")

    @property
    def frame(self) -> tuple[int, int]:
        """(width, height) of the bytes."""
        return self.source or self.size

    @property
    def gray(self) -> bool:
        return self.format.startswith("gray") or (self.format in REAL and self.train == "gray")

    @property
    def channels(self) -> int:
        return 1 if self.gray else 4 if self.format in ("rgba", "bgra") else 3


def tables(path: str | None) -> dict[str, dict[str, Any]]:
    """[inputs.NAME] tables of a TOML file. UsageError for what is none; {} without a file."""
    if path is None:
        return {}
    try:
        with open(path, "rb") as file:
            held = tomllib.load(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    found = held.get("inputs")
    if not isinstance(found, dict) or not found or not all(isinstance(t, dict) for t in found.values()):
        raise UsageError(f"{path}: wanted tables [inputs.NAME]")
    return found


def parsed(text: str) -> tuple[str, dict[str, Any]]:
    """`data=nv12,train=rgb,mean=1,2,3` to its name and table; a part without `=` goes on with the key before it."""
    name, _, rest = text.partition("=")
    parts = rest.split(",")
    if not name or not parts[0]:
        raise UsageError(f"--input {text}: wanted NAME=FORMAT,KEY=VALUE,...")
    table, key = {"format": parts[0]}, ""
    for part in parts[1:]:
        if "=" in part:
            key, _, value = part.partition("=")
            key = key.strip().replace("-", "_")
            table[key] = value
        elif key:
            table[key] += f",{part}"
        else:
            raise UsageError(f"--input {text}: wanted KEY=VALUE, got {part!r}")
    return name, table


KEYS = {f.name for f in fields(Description)} - {"colour"} | {"mode", "range", "siting", "colour_rounding"}


def described(table: Mapping[str, Any], where: str) -> Description:
    """Of a TOML or JSON table, or of options. UsageError names the key."""
    given = {k.replace("-", "_"): v for k, v in table.items()}
    if unknown := given.keys() - KEYS:
        raise UsageError(f"{where}: unknown key {min(unknown)!r}; known: {', '.join(sorted(KEYS))}")
    if missing := {"format", "size"} - given.keys():
        raise UsageError(f"{where}: {min(missing)} is missing")
    try:
        return _described(_with_defaults(given))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{where}: {error}") from error


def _with_defaults(given: dict[str, Any]) -> dict[str, Any]:
    """Under what is given, the profile's own. A mode or a range of the user's takes the profile's place."""
    from qverify.inputs.profiles import PROFILES, defaults

    profile = str(given.get("profile", ""))
    if not profile:
        return given
    if profile not in PROFILES:
        raise UsageError(f"input profile {profile!r}: wanted one of {', '.join(PROFILES)}")
    return defaults(profile, str(given["format"])) | given


def _described(given: dict[str, Any]) -> Description:
    mode = str(given.pop("mode", "opencv"))
    colour = Colour.preset(mode) if mode in PRESETS else Colour(mode, "full")
    own = {"range": "range", "siting": "siting", "colour_rounding": "rounding"}
    chosen = {own[k]: str(given.pop(k)) for k in list(given) if k in own}
    if chosen and mode in PRESETS:
        raise UsageError(f"{min(chosen)}: mode {mode} brings its own; give mode bt601 or bt709 to choose it")
    words = {k: given.pop(k) for k in list(given) if isinstance(Description.__dataclass_fields__[k].default, str)}
    numbers = {k: int(given.pop(k)) for k in list(given) if k.endswith("_align") or k == "fill"}
    made = {k: tuple(float(x) for x in _several(given.pop(k))) for k in ("mean", "scale") if k in given}
    quantize = given.pop("quantize", None)
    scaled = None if quantize is None else _several(quantize)
    pair = None if scaled is None else (float(scaled[0]), int(scaled[1]))
    roi = given.pop("roi", None)
    area = None if roi is None else tuple(int(v) for v in _several(roi))
    if area is not None and len(area) != 4:
        raise ValueError(f"roi {roi!r}: wanted x,y,width,height")
    source = _size(given.pop("source")) if given.get("source") is not None else None
    given.pop("source", None)
    size = _size(given.pop("size"))
    text = {k: str(v) for k, v in words.items()}
    one = Description(
        str(given.pop("format")), size, colour=replace(colour, **chosen), quantize=pair, roi=area, source=source
    )
    return replace(one, **text, **numbers, **made)  # type: ignore[arg-type]


def _several(value: Any) -> list[Any]:
    if isinstance(value, str):
        return value.split(",")
    return list(value) if isinstance(value, list | tuple) else [value]


def _size(value: Any) -> tuple[int, int]:
    """`224x160` or [224, 160]: width, height."""
    parts = value.lower().split("x") if isinstance(value, str) else list(value)
    if len(parts) != 2:
        raise ValueError(f"size {value!r}: wanted WIDTHxHEIGHT")
    return int(parts[0]), int(parts[1])
