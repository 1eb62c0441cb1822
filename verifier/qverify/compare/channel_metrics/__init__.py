"""The metrics of single channels, one page each: NAME, its key in the report, and Measure(context), a class with add(part)
and result(), which returns a number for each channel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qverify.compare.paired_values import Block
from qverify.pages import load_pages
from qverify.tensors.recording import Array

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ChannelContext:
    """The tensor that is measured. channels: number of channels. elements: number of elements of each. integers: whether
    both sides have the same integer type. dtypes: of both sides; None for a side that is not quantized."""

    channels: int
    elements: int
    integers: bool
    dtypes: tuple[np.dtype[Any] | None, np.dtype[Any] | None]


@dataclass(slots=True)
class ChannelPart:
    """A part of both tensors. channel: of each element that differs. block: these elements. all_channels, a, b: the channel and the
    stored value of every element of the part."""

    channel: npt.NDArray[np.int64]
    block: Block
    all_channels: npt.NDArray[np.int64]
    a: Array
    b: Array


class Measure(Protocol):
    """A metric in the course of being measured, part by part."""

    def add(self, part: ChannelPart) -> None: ...
    def result(self) -> Numbers | None: ...


@cache
def _load_pages() -> tuple[tuple[str, type], ...]:
    """Returns NAME and Measure of every page of this folder."""
    return tuple((page.NAME, page.Measure) for page in load_pages(__name__, ("NAME", "Measure")))


def make_channel_measures(context: ChannelContext) -> dict[str, Measure]:
    """Returns a new Measure of every metric, by name."""
    return {name: kind(context) for name, kind in _load_pages()}


def sum_by_channel(channel: npt.NDArray[np.int64], values: npt.NDArray[Any] | None, channels: int) -> Numbers:
    """Returns the sum of the values (None: the number of elements) of each channel."""
    return np.bincount(channel, values, channels)
