"""The settings of a decoder, and their text form `NAME,KEY=VALUE,...` and table `[decoder]`."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.closest_names import did_you_mean
from qverify.errors import UsageError
from qverify.files import read_regular

ACTIVATIONS = ("", "none", "sigmoid", "softmax")
COMBINATIONS = ("", "product", "root", "class", "objectness", "objectness-twice")
NMS = ("class-wise", "agnostic", "none")
FITS = ("letterbox", "letterbox-top-left", "stretch")
LAYOUTS = ("NCHW", "NHWC")
DISTANCES = ("softmax", "none", "softmax-twice", "argmax", "sigmoid")
ORDERS = ("xywh", "yxhw")
RESIZES = (
    *("", "nearest", "nearest-centre", "nearest-round", "nearest-corners"),
    *("bilinear", "bilinear-corners", "bilinear-asymmetric"),
)
COLLAPSES = ("repeats", "none", "blanks-first", "repeats-only")
MAX_SIDE = 1 << 15
MAX_PRIORS_BYTES = 1 << 24
MAX_CLASSES = 1 << 17
MAX_NAME = 4096
MAX_CHARACTERS_BYTES = 1 << 20
LIST_ENDINGS = (".txt", ".dict")  # of files of characters
Pairs = tuple[tuple[float, ...], ...]


class Priors:
    """Priors of ssd: values, float64 (N, 4). Two are equal if their values are."""

    __slots__ = ("_key", "values")

    def __init__(self, values: npt.NDArray[Any]):
        self.values = np.ascontiguousarray(values, np.float64).reshape(-1, 4)
        if not np.isfinite(self.values).all():
            raise UsageError("decoder priors: wanted finite numbers")
        self._key = hash(self.values.tobytes())

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Priors) and self._key == other._key and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return self._key

    def __repr__(self) -> str:
        return f"Priors({len(self.values)}, {self._key})"


NO_PRIORS = Priors(np.zeros((0, 4)))


@dataclass(frozen=True, slots=True)
class Settings:
    """How outputs are decoded. Raises UsageError for values that do not fit. An empty text, 0 or () stands for the
    page's own value, or for what the shapes say.

    Attributes:
        size: (width, height) of the network's input in pixels; (0, 0): from the shapes.
        frame: (width, height) of the picture; (0, 0): results stay in pixels of the network's input.
        fit: how the picture was fitted into the input: letterbox (centred), letterbox-top-left, stretch.
        roi: x, y, width, height of the part of the picture that was the input, if it was not the whole.
        clip: whether boxes are clipped to the picture.
        layout: of an output whose shape does not tell: NCHW or NHWC (also: channels before or after anchors).
        classes: number of classes, with a background class if the network has one.
        strides: input pixels per cell of each level.
        anchors: per level the widths and heights of its anchors in input pixels: w, h, w, h, ...
        priors: cx, cy, w, h of every prior, as shares of the input (ssd); () makes them of anchors and strides.
        variances: of ssd: of the centre and of the size.
        reg_max: number of bins per side of distance distributions (DFL).
        dfl: how bins become a distance: softmax (its expected value), argmax (the highest bin), none, softmax-twice.
        order: of the four numbers that are decoded (ssd): xywh or yxhw.
        shares: whether decoded boxes are shares of the input, instead of pixels (yolov8).
        background: the background class that is never a result; -1 if there is none.
        grid_offset: place of a cell's centre within the cell; NaN stands for the page's own.
        activation: of the scores: none, sigmoid, softmax.
        combine: how class score and objectness become the score: product, root (square root of the product), class,
            objectness.
        score: least score; a result has a score above it (at least it, if `score_equal`).
        score_equal: whether a score equal to `score` is kept.
        multi_label: whether an anchor may give several classes, instead of its best one only.
        nms: class-wise, agnostic or none.
        iou: a box is removed if its IoU with a kept box of a higher score is above this.
        before_nms: most boxes that go into NMS, the highest scores first; 0 for all.
        top: most results; 0 for all.
        resize: of a mask: how it becomes as large as the picture: nearest (labels) or bilinear (values, before the best
            class is taken), with the grid that follows the word (segmentation.PLACES); "" for no resize.
        through_input: of a mask that is stretched: whether it is resized to the input's size first, and its labels from
            there to the picture's, instead of in one step.
        refine: of heatmaps: by how much of a cell a peak is moved towards its higher neighbour.
        peaks: of centernet: whether only the highest of 3 x 3 neighbours counts.
        blank: the blank class of CTC.
        collapse: of CTC: repeats (one of equal neighbours, then no blanks), none (all but blanks), blanks-first (one of
            equal neighbours after blanks are left out), repeats-only (blanks stay).
        characters: of CTC: the character of each class but the blank, in order.
        binary: of ppocr: least probability of a pixel that belongs to text.
        unclip: of ppocr: by how much a region is grown: area * unclip / perimeter.
    """

    size: tuple[int, int] = (0, 0)
    frame: tuple[int, int] = (0, 0)
    fit: str = "letterbox"
    roi: tuple[float, ...] = ()
    clip: bool = True
    layout: str = "NCHW"
    classes: int = 0
    strides: tuple[int, ...] = (8, 16, 32)
    anchors: Pairs = ()
    priors: Priors = NO_PRIORS
    variances: tuple[float, float] = (0.1, 0.2)
    reg_max: int = 16
    dfl: str = "softmax"
    order: str = "xywh"
    shares: bool = False
    background: int = -1
    grid_offset: float = math.nan
    activation: str = ""
    box_activation: str = ""
    combine: str = ""
    score: float = 0.25
    score_equal: bool = False
    multi_label: bool = False
    nms: str = "class-wise"
    iou: float = 0.45
    before_nms: int = 30000
    top: int = 300
    resize: str = ""
    through_input: bool = False
    refine: float = 0.25
    peaks: bool = True
    blank: int = 0
    collapse: str = "repeats"
    characters: str = ""
    binary: float = 0.3
    unclip: float = 1.5

    def __post_init__(self) -> None:
        words = (
            ("fit", self.fit, FITS),
            ("layout", self.layout, LAYOUTS),
            ("activation", self.activation, ACTIVATIONS),
            ("combine", self.combine, COMBINATIONS),
            ("nms", self.nms, NMS),
            ("box_activation", self.box_activation, ACTIVATIONS[:3]),
            ("dfl", self.dfl, DISTANCES),
            ("order", self.order, ORDERS),
            ("resize", self.resize, RESIZES),
            ("collapse", self.collapse, COLLAPSES),
        )
        for name, value, known in words:
            if value not in known:
                raise UsageError(f"decoder {name} {value!r}: wanted one of {', '.join(k for k in known if k)}")
        self._check_counts()
        for name in ("score", "iou", "binary"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"decoder {name} {getattr(self, name)}: wanted 0 to 1")
        if not 0 < self.unclip <= 100 or not all(0 < v < math.inf for v in self.variances):
            raise UsageError(f"decoder unclip {self.unclip}, variances {self.variances}: wanted numbers above 0")
        if not all(math.isfinite(v) for row in (*self.anchors, self.roi) for v in row):
            raise UsageError("decoder anchors, roi: wanted finite numbers")
        if self.roi and (len(self.roi) != 4 or min(self.roi[2:]) <= 0):
            raise UsageError("decoder roi: wanted x,y,width,height with a width and height above 0")

    def _check_counts(self) -> None:
        for name in ("size", "frame"):
            pair = getattr(self, name)
            if pair != (0, 0) and not all(0 < v <= MAX_SIDE for v in pair):
                raise UsageError(f"decoder {name} {pair[0]}x{pair[1]}: wanted 1x1 to {MAX_SIDE}x{MAX_SIDE}")
        limits = {
            "classes": (0, MAX_CLASSES),
            "reg_max": (1, 256),
            "background": (-1, MAX_CLASSES),
            "blank": (0, MAX_CLASSES),
        }
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise UsageError(f"decoder {name} {getattr(self, name)}: wanted {low} to {high}")
        if min(self.before_nms, self.top) < 0:
            raise UsageError("decoder before_nms, top: wanted 0 (all) or more")
        if not 1 <= len(self.strides) <= 16 or not all(1 <= s <= 1024 for s in self.strides):
            raise UsageError(f"decoder strides {self.strides}: wanted 1 to 16 numbers from 1 to 1024")
        if self.anchors and (len(self.anchors) != len(self.strides) or any(len(a) % 2 or not a for a in self.anchors)):
            raise UsageError(f"decoder anchors: wanted pairs w,h for each of {len(self.strides)} strides")


KEYS = tuple(f.name for f in fields(Settings))


def parse_settings(text: str, defaults: Settings) -> tuple[str, Settings]:
    """Parses `NAME,KEY=VALUE,...`. Returns the decoder's name and its settings, those that are not given from `defaults`.
    Raises UsageError naming the wrong key."""
    name, table = split_settings(text)
    if "characters" in table:
        table["characters"] = read_characters(table["characters"], name)
    return name, read_settings(table, defaults, f"--decoder {name}")


def read_characters(value: str, name: str) -> str:
    """Returns the characters in a file, if the value names one: one on each line, or all on its only line; else the value.
    Raises UsageError for a file that holds something else, and for the name of a .txt file that does not exist."""
    if not (len(value) < MAX_NAME and "\0" not in value and os.path.isfile(value)):
        if value.lower().endswith(LIST_ENDINGS):
            raise UsageError(f"--decoder {name}: characters {value[:60]!r}: no such file; wanted it, or the characters")
        return value
    try:
        lines = read_regular(value, MAX_CHARACTERS_BYTES, follow=True).decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"--decoder {name}: characters {value[:60]!r}: not UTF-8 (byte {error.start})") from None
    lines = [line.removesuffix("\r") for line in lines]
    lines = lines[:-1] if not lines[-1] else lines
    if len(lines) > 1 and (wrong := next((at for at, line in enumerate(lines) if len(line) != 1), None)) is not None:
        raise UsageError(
            f"--decoder {name}: characters {value[:60]!r}: line {wrong + 1} has {len(lines[wrong])} characters; "
            "wanted one on each line, or all on one line"
        )
    if not any(lines):
        raise UsageError(f"--decoder {name}: characters {value[:60]!r}: the file is empty")
    return "".join(lines)


def split_settings(text: str) -> tuple[str, dict[str, str]]:
    """Splits `NAME,KEY=VALUE,...`. A part without `=` continues the value before it. Returns the decoder's name and the
    values by key. Raises UsageError for a key that is given twice, or a part that belongs to none."""
    name, _, rest = text.partition(",")
    table: dict[str, str] = {}
    key = ""
    for part in rest.split(",") if rest else ():
        if "=" in part:
            key, _, value = part.partition("=")
            key = key.strip().replace("-", "_")
            if key in table:
                raise UsageError(f"--decoder {name}: {key} is given twice")
            table[key] = value
        elif key:
            table[key] += f",{part}"
        else:
            raise UsageError(f"--decoder {text}: wanted NAME,KEY=VALUE,..., got {part!r}")
    return name, table


def read_settings(table: Mapping[str, Any], defaults: Settings, where: str) -> Settings:
    """Returns the settings of a table (texts, or values of TOML), those that it lacks from `defaults`. Raises UsageError
    naming the wrong key."""
    changed: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in KEYS:
            raise UsageError(f"{where}: unknown key {name!r}; known: {', '.join(KEYS)}{did_you_mean(name, KEYS)}")
        try:
            changed[name] = _read_value(name, value, getattr(defaults, name))
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"{where}: {name} {str(value)[:60]!r}: {error}") from error
    return replace(defaults, **changed)


def _read_value(name: str, value: Any, default: Any) -> Any:
    if name in ("size", "frame"):
        return _read_size(value)
    if name == "priors":
        is_file = isinstance(value, str) and value.endswith(".npy")
        return _read_priors(value) if is_file else Priors(np.array(_read_rows(value), np.float64))
    if name == "anchors":
        return _read_rows(value)
    if isinstance(default, bool):
        return _read_flag(value)
    if isinstance(default, int):
        return _read_whole(value)
    if isinstance(default, float):
        return float(value)
    if isinstance(default, tuple):
        items = value.split(",") if isinstance(value, str) else list(value)
        read = tuple((_read_whole if name == "strides" else float)(v) for v in items)
        if name == "variances" and len(read) != 2:
            raise ValueError("wanted two numbers")
        return read
    if not isinstance(value, str):
        raise ValueError("wanted a text")
    return value


def _read_size(value: Any) -> tuple[int, int]:
    parts = value.lower().split("x") if isinstance(value, str) else list(value)
    if len(parts) != 2:
        raise ValueError("wanted WIDTHxHEIGHT")
    return _read_whole(parts[0]), _read_whole(parts[1])


def _read_rows(value: Any) -> Pairs:
    """Reads `10,13,16,30;30,61,62,45` or [[10, 13, 16, 30], ...]."""
    rows = value.split(";") if isinstance(value, str) else list(value)
    return tuple(tuple(float(v) for v in (row.split(",") if isinstance(row, str) else row)) for row in rows)


def _read_priors(path: str) -> Priors:
    """Reads cx, cy, w, h of each prior from a .npy file (N, 4)."""
    data = read_regular(path, MAX_PRIORS_BYTES, follow=True)
    try:
        values = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"not a readable .npy: {error}") from error
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or values.ndim != 2 or values.shape[1] != 4:
        raise ValueError("wanted floats (N, 4)")
    return Priors(values)


def _read_flag(value: Any) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() not in words:
        raise ValueError("wanted true or false")
    return words[str(value).lower()]


def _read_whole(value: Any) -> int:
    text = value.strip() if isinstance(value, str) else ""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if len(text) < 12 and text.isascii() and text.removeprefix("-").isdigit():
        return int(text)
    raise ValueError("wanted a whole number")
