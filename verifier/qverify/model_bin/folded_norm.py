"""FoldedNorm: the parameters of a BatchNormalization, of which model.bin has only a factor and a summand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class FoldedNorm:
    """The parameters of a BatchNormalization, float32 [C] each, as they are in the ONNX.

    Attributes:
        scale, shift: gamma and beta.
        mean, variance: of the channel.
        epsilon: what is added to the variance.
    """

    scale: npt.NDArray[np.float32]
    shift: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32]
    variance: npt.NDArray[np.float32]
    epsilon: float
