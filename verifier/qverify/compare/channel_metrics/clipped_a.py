"""Share of the elements of each channel that are at an end of their integer type on side a; None if the side is not
quantized."""

from __future__ import annotations

import numpy as np

from qverify.compare.channel_metrics import ChannelContext, ChannelPart, Numbers, sum_by_channel

NAME = "clipped_a"


class Measure:
    def __init__(self, context: ChannelContext):
        dtype = context.dtypes[0]
        self.ends = None if dtype is None else np.iinfo(dtype)
        self.elements, self.counts = context.elements, np.zeros(context.channels, np.int64)

    def add(self, part: ChannelPart) -> None:
        if self.ends is not None:
            clipped = (part.a == self.ends.min) | (part.a == self.ends.max)
            self.counts += sum_by_channel(part.all_channels[clipped], None, len(self.counts))

    def result(self) -> Numbers | None:
        return None if self.ends is None else self.counts / self.elements
