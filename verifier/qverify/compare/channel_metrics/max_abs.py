"""Largest |a - b| of each channel, of real values; infinite where one side alone is not finite."""

from __future__ import annotations

import numpy as np

from qverify.compare.channel_metrics import ChannelContext, ChannelPart, Numbers

NAME = "max_abs"


class Measure:
    def __init__(self, context: ChannelContext):
        self.largest = np.zeros(context.channels)

    def add(self, part: ChannelPart) -> None:
        np.maximum.at(self.largest, part.channel, part.block.distance)

    def result(self) -> Numbers:
        return self.largest
