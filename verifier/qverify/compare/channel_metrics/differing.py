"""Number of elements of each channel that differ."""

from __future__ import annotations

import numpy as np

from qverify.compare.channel_metrics import ChannelContext, ChannelPart, Numbers, sum_by_channel

NAME = "differing"


class Measure:
    def __init__(self, context: ChannelContext):
        self.counts = np.zeros(context.channels, np.int64)

    def add(self, part: ChannelPart) -> None:
        self.counts += sum_by_channel(part.channel[part.block.distance != 0], None, len(self.counts))

    def result(self) -> Numbers:
        return self.counts
