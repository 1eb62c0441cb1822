"""Names the channels to which all differences of a tensor are confined."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qverify.tensors.recording import Array

CHANNEL_AXIS = 1  # of the graph's tensors, which are NCHW, NCW or NC
FEWEST = 4  # channels of a tensor of which some are named
MAX_SHOWN = 6


def describe_channels(made: Array, recorded: Array) -> str:
    """Returns the channels in which all elements that differ lie, if these are at most half of the tensor's channels
    and at least two elements differ, of each channel on average if it has several; else ""."""
    return describe_marked_channels(made != recorded) if made.shape == recorded.shape else ""


def describe_marked_channels(differing: npt.NDArray[np.bool_], axis: int = CHANNEL_AXIS) -> str:
    """Returns describe_channels() of a mask of the elements that differ. axis: of the channels."""
    if differing.ndim < 2 or differing.shape[axis] < FEWEST:
        return ""
    channels = differing.shape[axis]
    counts = np.count_nonzero(np.moveaxis(differing, axis, 0).reshape(channels, -1), axis=1)
    wrong = [int(at) for at in np.flatnonzero(counts)]
    least = 2 * len(wrong) if differing.size > channels else 2
    if not wrong or 2 * len(wrong) > channels or int(counts.sum()) < least:
        return ""
    shown = ", ".join(map(str, wrong[:MAX_SHOWN])) + (" ..." if len(wrong) > MAX_SHOWN else "")
    if len(wrong) > MAX_SHOWN and wrong == [*range(wrong[0], wrong[-1] + 1)]:
        shown = f"{wrong[0]} to {wrong[-1]}"
    return f"all in {len(wrong)} of {channels} channels: {shown}"


def are_zero(differing: npt.NDArray[np.bool_], given: Array, axis: int) -> bool:
    """Returns whether all elements of the channels in which some differ are 0 in `given`."""
    by_channel = np.moveaxis(differing, axis, 0).reshape(differing.shape[axis], -1).any(axis=1)
    return bool(by_channel.any()) and not np.moveaxis(given, axis, 0)[by_channel].any()
