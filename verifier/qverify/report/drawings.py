"""What is drawn of tensors: counts and cells, ready for any renderer. Only people look at them; no verdict reads them, and
the JSON report does not hold them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

MOST = 40  # tensors of one frame, over all its pairs
RULE = (
    "Drawn are, in this order: the tensors that fail when they are recomputed, the first that differs, the final outputs "
    "that differ, the others that differ (lowest signal to noise ratio first), the final outputs, the others in running "
    "order; until {most} tensors of a frame are drawn or the page is full. Equal tensors have a histogram of values only."
)


@dataclass(slots=True)
class Density:
    """How often values of a meet values of b. low, high: real values at the ends of both axes. counts: elements,
    [bin of b, bin of a]; those that are not finite on both sides are left out."""

    low: float
    high: float
    counts: npt.NDArray[np.int64]


@dataclass(slots=True)
class ErrorMap:
    """|a - b| over one plane. channel: its number; None for the largest of all channels. cells: the largest |a - b| of
    the elements in each cell, inf where one side alone is not finite. total: the sum of |a - b| over the plane."""

    channel: int | None
    cells: npt.NDArray[np.float64]
    total: float


@dataclass(slots=True)
class ErrorMaps:
    """Where a tensor differs. plane: height and width in elements. folded: the tensor has one dimension (of 1-D tensors
    and very long rows), cut into rows of this width. channels: how many planes. maps: over all channels, then those of
    the largest sums of |a - b|."""

    plane: tuple[int, int]
    folded: bool
    channels: int
    maps: list[ErrorMap]


@dataclass(slots=True)
class ValueHistogram:
    """How often values occur. low, high: real values at the ends. a, b: elements by bin; b is None where the bytes are the
    same. quantized: the least and the largest real value the type can hold, None for floats. clipped_a, clipped_b:
    elements at these two."""

    low: float
    high: float
    a: npt.NDArray[np.int64]
    b: npt.NDArray[np.int64] | None
    quantized: tuple[float, float] | None
    clipped_a: tuple[int, int] | None
    clipped_b: tuple[int, int] | None


@dataclass(slots=True)
class DifferingElement:
    """One element that differs. index: in the tensor's shape. a, b: as stored."""

    index: tuple[int, ...]
    a: int | float
    b: int | float


@dataclass(slots=True)
class TensorDrawing:
    """One drawn tensor of one pair. unit: of differences, LSB or "" (real values). differing: elements. differences: of
    b - a: label and elements, in rising order, those that agree left out. others: elements with rarer differences.
    density, maps: None where the tensors are equal. first: the first elements that differ. also: other pairs that have
    the very same bytes. why: why it was chosen."""

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
    """One prepared input. picture: uint8, (height, width, 3), down-sampled, None where it is no picture. values: of its
    elements, None where none is finite. shown: what the picture is, in words. frame, source: the frame's number and
    name, of many."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    picture: npt.NDArray[np.uint8] | None
    values: ValueHistogram | None
    shown: str = ""
    frame: int = 0
    source: str = ""
