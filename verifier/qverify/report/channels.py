"""The error of a tensor by channels and by roles: what the report holds of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

BLOCKS = 64  # of consecutive channels, into which all channels of a tensor are gathered
WORST = 8  # channels whose errors are listed one by one
NAMED = 4  # channels that a line names
SHARE_NAMED = 0.8  # of the squared error, which the channels that a line names have together where that many do
ChannelNumber = int | float | None


@dataclass(slots=True)
class ChannelError:
    """The error of one channel. channel: its number along the axis. share: of the squared error of the tensor (0..1); null
    if that is not finite. metrics: by name: elements that differ (differing), largest |a-b| of real values (max_abs) and
    of stored integers (max_lsb; null for floats), mean of b - a (mean_error), share of the elements of each side at an end
    of its integer type (clipped_a, clipped_b; null for floats)."""

    channel: int
    share: float | None
    metrics: dict[str, ChannelNumber] = field(default_factory=dict)


@dataclass(slots=True)
class ChannelErrors:
    """The errors of a tensor whose bytes differ, by channel. axis: of the channels. channels: their number. width: number
    of consecutive channels in each block (the last may have fewer); there are at most 64 blocks. shares: of the squared
    error of the tensor, by block (0..1); empty if it is not finite. max_abs: largest |a-b| by block. worst: the channels
    with the largest squared errors, at most 8, the worst first. most_clipped: the largest share of clipped elements of a channel on side b; null of floats."""

    axis: int
    channels: int
    width: int
    shares: list[float] = field(default_factory=list)
    max_abs: list[float] = field(default_factory=list)
    worst: list[ChannelError] = field(default_factory=list)
    most_clipped: float | None = None


@dataclass(slots=True)
class RoleRow:
    """The error of one role of a tensor: of the channels that a description gives this name. channels: the range,
    START:STOP. axis: of the channels. elements: number of its elements. metrics: as of the tensor. gates: those that were
    given for it, in words. verdict: by these gates; PASSED without any. why: the gates that it misses."""

    role: str
    channels: str
    axis: int
    elements: int
    metrics: dict[str, float | int | None] = field(default_factory=dict)
    gates: list[str] = field(default_factory=list)
    verdict: Literal["PASSED", "FAILED", "INCONCLUSIVE"] = "PASSED"
    why: str = ""


def describe_worst_channels(errors: ChannelErrors) -> str:
    """Returns the channels that have most of the error in words, such as `channels 37, 12: max 9 LSB, 80 % of the squared
    error`; "" if four channels have less than half of it, or the tensor has fewer than two channels."""
    if errors.channels < 2 or not errors.worst:
        return ""
    if not errors.shares:  # NaN or Inf on one side
        wild = [c for c in errors.worst if not _is_finite(c.metrics.get("max_abs"))]
        return f"{_names(wild[:NAMED])} of {errors.channels}: not finite on one side" if wild else ""
    chosen, share = list[ChannelError](), 0.0
    for channel in errors.worst[:NAMED]:
        if share >= SHARE_NAMED:
            break
        chosen.append(channel)
        share += channel.share or 0.0
    if share < 0.5 or len(chosen) == errors.channels:
        return ""
    return f"{_names(chosen)} of {errors.channels}: max {_largest(chosen)}, {share:.0%} of the squared error".replace(
        "%", " %"
    )


def _is_finite(number: ChannelNumber) -> bool:
    return number is not None and math.isfinite(float(number))


def _names(channels: Sequence[ChannelError]) -> str:
    return f"channel{'s' * (len(channels) > 1)} {', '.join(str(c.channel) for c in channels)}"


def _largest(channels: Sequence[ChannelError]) -> str:
    steps = [c.metrics.get("max_lsb") for c in channels]
    if all(isinstance(step, int) for step in steps):
        return f"{max(step for step in steps if step is not None)} LSB"
    return f"|a-b| {max(float(c.metrics.get('max_abs') or 0) for c in channels):.4g}"
