"""The integers that tpu-mlir stores of weights, and its rounding to BF16."""

from __future__ import annotations

import zipfile
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError

Array = npt.NDArray[Any]


def read_weights(data: bytes | None, where: str) -> dict[str, Array]:
    """Returns the arrays of a _weights.npz by name; none of None. Raises BadFileError for any other file."""
    if data is None:
        return {}
    try:
        with np.load(BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise BadFileError(f"{where}: not a readable .npz: {str(error)[:100]}") from error


def to_bf16(value: float) -> Array:
    """Returns a value rounded to BF16, as float32."""
    bits = np.array(value, np.float32).reshape(1).view(np.uint32).astype(np.int64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32).reshape(())


def as_in_the_onnx(stored: Array, weights: Array, axis: int, op: str) -> Array:
    """Returns stored weights in the order of the ONNX's. The toolkit stores those of a Gemm as [inputs, outputs], and those
    of a ConvTranspose with the outputs first."""
    order = list(range(weights.ndim))
    if (op == "Gemm" and axis == 0) or op == "ConvTranspose":
        order[:2] = [1, 0]
    whole = stored.reshape([weights.shape[k] for k in order]).transpose(order)
    return np.ascontiguousarray(whole).astype(np.int8)
