"""The quantization that a model states for an integer tensor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quantization:
    """Scale and zero point of an integer tensor: one of each, or one for each index of `axis`, which is -1 for one."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int = -1


Stated = dict[str, Quantization]
