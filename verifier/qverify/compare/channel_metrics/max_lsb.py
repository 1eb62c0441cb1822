"""Largest |a - b| of each channel, of the stored integers; None if they are of two types or floats."""

from __future__ import annotations

import numpy as np

from qverify.compare.channel_metrics import ChannelContext, ChannelPart, Numbers

NAME = "max_lsb"


class Measure:
    def __init__(self, context: ChannelContext):
        self.largest = np.zeros(context.channels, np.int64) if context.integers else None

    def add(self, part: ChannelPart) -> None:
        if self.largest is not None and part.block.steps is not None:
            np.maximum.at(self.largest, part.channel, np.abs(part.block.steps))

    def result(self) -> Numbers | None:
        return self.largest
