"""The integers that tpu-mlir stores of weights, and its rounding to BF16."""

from __future__ import annotations

import zipfile
import zlib
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError
from qverify.vendor_files.array_files import npy_in_memory
from qverify.vendor_files.untrusted_files import MAX_FILE_BYTES, MAX_FILES

Array = npt.NDArray[Any]


def read_weights(data: bytes | None, where: str) -> dict[str, Array]:
    """Returns the arrays of a _weights.npz by name; none of None. Raises BadFileError for any other file."""
    if data is None:
        return {}
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            listed = archive.infolist()
            if len(listed) > MAX_FILES or sum(member.file_size for member in listed) > MAX_FILE_BYTES:
                raise BadFileError(f"{where}: {len(listed)} members; at most {MAX_FILE_BYTES} bytes are unpacked")
            return {
                (name := member.filename.removesuffix(".npy")): npy_in_memory(archive.read(member), name, where).array()
                for member in listed
            }
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
        NotImplementedError,
        RuntimeError,
        zlib.error,
        zipfile.BadZipFile,
    ) as error:
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
