"""Which channel's parameters a kernel uses for a channel, where it does not use the channel's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def channel_choices(channels: int) -> dict[str, Array]:
    """Returns, by name, the channel [channels] whose parameters are used; each choice once."""
    at = np.arange(channels)
    found = {
        "the next channel": np.minimum(at + 1, channels - 1),
        "the next channel, the last taking the first's": (at + 1) % channels,
        "the channel before": np.maximum(at - 1, 0),
        "the channel before, the first taking the last's": (at - 1) % channels,
        "the first channel": at * 0,
        "the last channel": at * 0 + channels - 1,
        "the channels in reverse order": at[::-1],
    }
    for n in (2, 4, 8, 16, 32, 64):
        if channels > n:
            rest = channels % n
            found[f"the channel modulo {n}"] = at % n
            found[f"the first of its {n} channels"] = at // n * n
            found[f"the channel {n} before"] = np.maximum(at - n, 0)
            found[f"its number divided by {n}"] = at // n
            found[f"the channels of each {n} in reverse order"] = np.minimum(at // n * n + n - 1 - at % n, channels - 1)
            found[f"channel {n - 1} from there on"] = np.minimum(at, n - 1)
            if rest:
                found[f"the last of the full {n} for the last {rest} (channels mod {n})"] = np.minimum(
                    at, channels - rest - 1
                )
                found[f"the first channel for the last {rest} (channels mod {n})"] = np.where(
                    at >= channels - rest, 0, at
                )
                found[f"the first channels for the last {rest} (channels mod {n})"] = np.where(
                    at >= channels - rest, at % n, at
                )
    distinct = dict[bytes, tuple[str, Array]]()
    for said, choice in found.items():
        if (choice != at).any():
            distinct.setdefault(choice.tobytes(), (said, choice))
    return dict(distinct.values())
