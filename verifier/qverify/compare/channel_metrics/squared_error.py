"""Sum of (a - b)^2 of each channel, of real values; infinite where one side alone is not finite."""

from __future__ import annotations

import numpy as np

from qverify.compare.channel_metrics import ChannelContext, ChannelPart, Numbers, sum_by_channel

NAME = "squared_error"


class Measure:
    def __init__(self, context: ChannelContext):
        self.sums = np.zeros(context.channels)

    def add(self, part: ChannelPart) -> None:
        with np.errstate(over="ignore"):
            self.sums += sum_by_channel(part.channel, part.block.distance * part.block.distance, len(self.sums))

    def result(self) -> Numbers:
        return self.sums
