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


def describe_marked_channels(differing: npt.NDArray[np.bool_]) -> str:
    """Returns describe_channels() of a mask of the elements that differ."""
    if differing.ndim < 2 or differing.shape[CHANNEL_AXIS] < FEWEST:
        return ""
    channels = differing.shape[CHANNEL_AXIS]
    others = tuple(axis for axis in range(differing.ndim) if axis != CHANNEL_AXIS)
    counts = np.count_nonzero(differing, axis=others)
    wrong = [int(at) for at in np.flatnonzero(counts)]
    least = 2 * len(wrong) if differing.size > channels else 2
    if not wrong or 2 * len(wrong) > channels or int(counts.sum()) < least:
        return ""
    shown = ", ".join(map(str, wrong[:MAX_SHOWN])) + (" ..." if len(wrong) > MAX_SHOWN else "")
    return f"all in {len(wrong)} of {channels} channels: {shown}"
