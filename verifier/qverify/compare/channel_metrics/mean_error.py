"""Mean of b - a of each channel, of real values: a bias, which a fault of the zero point or of rounding leaves. NaN where a side
is not finite."""

from __future__ import annotations

import numpy as np

from qverify.compare.channel_metrics import ChannelContext, ChannelPart, Numbers, sum_by_channel

NAME = "mean_error"


class Measure:
    def __init__(self, context: ChannelContext):
        self.elements, self.sums = context.elements, np.zeros(context.channels)

    def add(self, part: ChannelPart) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            self.sums += sum_by_channel(part.channel, part.block.b - part.block.a, len(self.sums))

    def result(self) -> Numbers:
        return self.sums / self.elements
