"""TensorSpec: name, dtype, shape, quantization and stored layout of one tensor. Padding is described nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np
import numpy.typing as npt

from qverify.tensors.real_values import to_float64

LAYOUTS = ("", "NCHW", "NHWC", "NCW", "NC")


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The description of one named tensor.

    Attributes:
        name: name of the tensor.
        dtype: element type, as numpy names it.
        shape: shape of the valid elements.
        aligned_shape: shape of the stored elements. Every dim is at least that of shape.
        scale: real value of one LSB, float32: () if not quantized, else one for the tensor or one per channel.
        zero_point: zero points in LSB, as many as scales.
        channel_axis: axis of the channels, or -1 if there is one scale for the tensor.
        layout: one of LAYOUTS.
        interior: whether the tensor is never compared, because it is inside a float region or was added by the
            compiler.
        integer_reference: whether the reference computes the tensor in integers.
        strides_bytes: row-major strides over aligned_shape, in bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    aligned_shape: tuple[int, ...] = ()
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    channel_axis: int = -1
    layout: str = ""
    interior: bool = False
    integer_reference: bool = True

    def __post_init__(self) -> None:
        if not self.aligned_shape:
            object.__setattr__(self, "aligned_shape", self.shape)

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        return _stored_dtype(self.dtype)

    @property
    def strides_bytes(self) -> tuple[int, ...]:
        item = self.numpy_dtype.itemsize
        return tuple(item * prod(self.aligned_shape[i + 1 :]) for i in range(len(self.shape)))

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """The size of the aligned buffer in bytes."""
        return prod(self.aligned_shape) * self.numpy_dtype.itemsize

    @property
    def valid_bytes(self) -> int:
        return self.elements * self.numpy_dtype.itemsize

    @property
    def quantized(self) -> bool:
        return bool(self.scale)

    def describe_scale(self) -> str:
        """Returns scale and zero point in words."""
        if len(self.scale) != 1:
            return f"{len(self.scale)} scales" if self.scale else "no scale"
        return f"scale {self.scale[0]:.6g}, zero point {self.zero_point[0] if self.zero_point else 0}"

    def same_meaning(self, other: TensorSpec) -> bool:
        """Returns whether equal bytes stand for equal real values under both specs."""
        axes = self.channel_axis == other.channel_axis or len(self.scale) <= 1
        return axes and (self.dtype, self.scale, self.zero_point) == (other.dtype, other.scale, other.zero_point)

    def valid_view(self, aligned: bytes | memoryview) -> npt.NDArray[np.generic]:
        """Returns the valid elements of aligned bytes, as a view of shape `shape`. Raises ValueError for bytes of
        another size."""
        if len(aligned) != self.size_bytes:
            raise ValueError(f"{self.name}: {len(aligned)} bytes, wanted {self.size_bytes}")
        whole = np.frombuffer(aligned, self.numpy_dtype).reshape(self.aligned_shape)
        return whole[tuple(slice(0, n) for n in self.shape)] if self.shape else whole

    def aligned_bytes(self, valid: npt.NDArray[np.generic]) -> bytes:
        """Returns the elements stored in the aligned layout, with zero padding."""
        if self.aligned_shape == self.shape == valid.shape and valid.dtype == self.numpy_dtype:
            return valid.tobytes()
        whole = np.zeros(self.aligned_shape, self.numpy_dtype)
        whole[tuple(slice(0, n) for n in self.shape)] = valid
        return whole.tobytes()

    def dequantized(self, values: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
        """Returns real values in float64: (q - zero_point) * scale, per channel along channel_axis. Floats are not
        changed."""
        real = to_float64(values)
        if not self.scale:
            return real
        scale, zero = np.array(self.scale, np.float64), np.array(self.zero_point, np.float64)
        if len(self.scale) > 1:
            along = [1] * len(self.shape)
            along[self.channel_axis] = -1
            scale, zero = scale.reshape(along), zero.reshape(along)
        return (real - zero) * scale


@cache
def _stored_dtype(name: str) -> np.dtype[np.generic]:
    """Returns the dtype of this name, little-endian."""
    return np.dtype(name).newbyteorder("<")
