"""Data of drawings of tensors: counts and cells, independent of a renderer. They are only shown: no verdict uses them,
and the JSON report does not contain them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAX_DRAWN = 40  # tensors of one frame, over all its pairs
RULE = (
    "Drawn are, in this order: the tensors that fail when they are recomputed, the first that differs, the final outputs "
    "that differ, the others that differ (lowest signal to noise ratio first), the final outputs, the others in running "
    "order; until {most} tensors of a frame are drawn or the page is full. Equal tensors have a histogram of values only."
)


@dataclass(slots=True)
class Density:
    """A two-dimensional histogram of the values of a and b. low, high: real values at the ends of both axes. counts:
    number of elements, [bin of b, bin of a], without elements that are not finite on either side."""

    low: float
    high: float
    counts: npt.NDArray[np.int64]


@dataclass(slots=True)
class ErrorMap:
    """|a - b| over one plane. channel: number of the channel, or None for the largest of all channels. cells: largest
    |a - b| of the elements in each cell; inf if only one side is not finite. total: sum of |a - b| over the plane."""

    channel: int | None
    cells: npt.NDArray[np.float64]
    total: float


@dataclass(slots=True)
class ErrorMaps:
    """Maps of where a tensor differs. plane: height and width in elements. folded: True if the plane consists of pieces
    of one long row, as for 1-D tensors. channels: number of planes. maps: first the map over all channels, then those
    of the channels with the largest sums of |a - b|."""

    plane: tuple[int, int]
    folded: bool
    channels: int
    maps: list[ErrorMap]


@dataclass(slots=True)
class ValueHistogram:
    """A histogram of values. low, high: real values at its ends. a, b: number of elements by bin; b is None if the
    bytes are equal. quantized: smallest and largest real value that the type can represent, or None for floats.
    clipped_a, clipped_b: number of elements with these two values."""

    low: float
    high: float
    a: npt.NDArray[np.int64]
    b: npt.NDArray[np.int64] | None
    quantized: tuple[float, float] | None
    clipped_a: tuple[int, int] | None
    clipped_b: tuple[int, int] | None


@dataclass(slots=True)
class DifferingElement:
    """One element that differs. index: its index in the tensor. a, b: the stored values."""

    index: tuple[int, ...]
    a: int | float
    b: int | float


@dataclass(slots=True)
class TensorDrawing:
    """One drawn tensor of one pair.

    Attributes:
        why: why it was chosen.
        unit: unit of the differences: LSB, or "" for real values.
        elements, differing: number of all elements, and of those that differ.
        values: histogram of the values.
        density: two-dimensional histogram, or None if the tensors are equal.
        differences: label and number of elements of each value of b - a other than zero, in rising order.
        others: number of elements with rarer differences, which are not in `differences`.
        maps: maps of where they differ, or None if they are equal.
        first: the first elements that differ.
        also: other pairs that have exactly the same bytes.
    """

    name: str
    op: str
    dtype: str
    shape: tuple[int, ...]
    why: str
    unit: str
    elements: int
    differing: int
    values: ValueHistogram | None
    density: Density | None = None
    differences: list[tuple[str, int]] = field(default_factory=list)
    others: int = 0
    maps: ErrorMaps | None = None
    first: list[DifferingElement] = field(default_factory=list)
    also: list[str] = field(default_factory=list)


@dataclass(slots=True)
class InputDrawing:
    """One prepared input. picture: uint8, (height, width, 3), down-sampled, or None if it is no picture. values:
    histogram of its elements, or None if none is finite. shown: how the picture was made from the input, in words.
    frame, source: number and name of the frame if there are several."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    picture: npt.NDArray[np.uint8] | None
    values: ValueHistogram | None
    shown: str = ""
    frame: int = 0
    source: str = ""


@dataclass(slots=True)
class TaskPicture:
    """The input of a frame with boxes. pixels: uint8, (height, width, 3), down-sampled. size: width and height of the input.
    ratio, pad: x and y of a point of the picture times `ratio` plus `pad` are its place in the input."""

    pixels: npt.NDArray[np.uint8]
    size: tuple[int, int]
    ratio: tuple[float, float]
    pad: tuple[float, float]
