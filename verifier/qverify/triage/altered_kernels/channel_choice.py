"""Wrong channels whose parameters a kernel may use for a channel instead of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def channel_choices(channels: int) -> dict[str, Array]:
    """Returns, by text, the index of the channel whose parameters are used for each channel; each choice once."""
    at = np.arange(channels)
    choices = {
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
            choices[f"the channel modulo {n}"] = at % n
            choices[f"the first of its {n} channels"] = at // n * n
            choices[f"the channel {n} before"] = np.maximum(at - n, 0)
            choices[f"its number divided by {n}"] = at // n
            choices[f"the channels of each {n} in reverse order"] = np.minimum(
                at // n * n + n - 1 - at % n, channels - 1
            )
            choices[f"channel {n - 1} from there on"] = np.minimum(at, n - 1)
            if rest:
                choices[f"the last of the full {n} for the last {rest} (channels mod {n})"] = np.minimum(
                    at, channels - rest - 1
                )
                choices[f"the first channel for the last {rest} (channels mod {n})"] = np.where(
                    at >= channels - rest, 0, at
                )
                choices[f"the first channels for the last {rest} (channels mod {n})"] = np.where(
                    at >= channels - rest, at % n, at
                )
    distinct = dict[bytes, tuple[str, Array]]()
    for text, choice in choices.items():
        if (choice != at).any():
            distinct.setdefault(choice.tobytes(), (text, choice))
    return dict(distinct.values())
