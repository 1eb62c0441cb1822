"""Loads oneDNN, which multiplies matrices of bytes many times faster than numpy, if it is installed (extra `fast`) and
its sums are right on this processor."""

from __future__ import annotations

import ctypes
import platform
import threading
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
PACKAGES = ("onednn-cpu-gomp", "onednn")  # of PyPI, which contain the library
LIBRARIES = ("libdnnl.so.3", "libdnnl.so.2")  # the library's names; Debian 12 has it in libdnnl2
MACHINES = ("x86_64", "AMD64")  # on others these functions are slow
OUT_OF_MEMORY = 1  # a status
TRIALS = ((1, 1, 1), (3, 65, 7), (40, 70, 90), (65, 333, 17))  # rows, terms and columns of the products that are tried


class _Version(ctypes.Structure):
    """The first members of dnnl_version_t."""

    _fields_ = (("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int))


class OneDnn:
    """The functions dnnl_gemm_u8s8s32 and dnnl_gemm_s8s8s32 of oneDNN, in the thread that calls them.

    Attributes:
        version: the library's version, such as 3.2.0.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        """Raises AttributeError if the library lacks the functions."""
        flag, size, real, place = ctypes.c_char, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
        self._functions = {"uint8": library.dnnl_gemm_u8s8s32, "int8": library.dnnl_gemm_s8s8s32}
        for name, function in self._functions.items():
            zero = ctypes.c_uint8 if name == "uint8" else ctypes.c_int8
            function.argtypes = [flag, flag, flag, size, size, size, real, place, size, zero]
            function.argtypes += [place, size, ctypes.c_int8, real, place, size, place]
            function.restype = ctypes.c_int
        library.dnnl_version.restype = ctypes.POINTER(_Version)
        version = library.dnnl_version().contents
        self.version = f"{version.major}.{version.minor}.{version.patch}"
        self._limit_threads = getattr(library, "omp_set_num_threads", None)  # missing if it is built without OpenMP
        self._state = threading.local()

    def multiply(
        self, a: Array, b: Array, zeros: tuple[int, int], out: Array, bias: Array | None = None, add: bool = False
    ) -> None:
        """Writes (a - zeros[0]) @ (b - zeros[1]) + bias to out.

        Args:
            a: uint8 or int8 [M, K].
            b: int8 [K, N].
            zeros: their zero points, which are numbers of the same types.
            out: int32 [M, N], each row in one piece of memory.
            bias: int32 [M], contiguous, or None.
            add: True to add to what out contains.

        Raises ValueError for arrays of other types or shapes, MemoryError if oneDNN lacks memory.
        """
        if a.dtype.name not in self._functions or b.dtype != np.int8 or a.shape[1] != len(b):
            raise ValueError(f"a product of bytes {a.dtype} {a.shape} @ {b.dtype} {b.shape}")
        if out.dtype != np.int32 or out.shape != (len(a), b.shape[1]) or out.strides[1] != 4:
            raise ValueError(f"{out.dtype} {out.shape} for the product {a.shape} @ {b.shape}")
        if bias is not None and (bias.dtype != np.int32 or bias.shape != (len(a),) or not bias.flags.c_contiguous):
            raise ValueError(f"a bias {bias.dtype} {bias.shape} for the product {a.shape} @ {b.shape}")
        if self._limit_threads is not None and not hasattr(self._state, "limited"):
            self._limit_threads(1)  # of the current thread: the blocks of a product already use all cores
            self._state.limited = True
        (a, order_a, step_a), (b, order_b, step_b) = _in_order(a), _in_order(b)
        added = np.zeros(1, np.int32) if bias is None else bias
        status = self._functions[a.dtype.name](
            *(order_a, order_b, b"F" if bias is None else b"C", len(a), b.shape[1], len(b), 1.0),
            *(a.ctypes.data, step_a, zeros[0], b.ctypes.data, step_b, zeros[1]),
            *(1.0 if add else 0.0, out.ctypes.data, out.strides[0] // 4, added.ctypes.data),
        )
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"oneDNN has no memory for a product {a.shape} @ {b.shape}")
        if status:
            raise RuntimeError(f"oneDNN returned status {status} for a product {a.shape} @ {b.shape}")


def _in_order(matrix: Array) -> tuple[Array, bytes, int]:
    """Returns the matrix, or a copy if neither its rows nor its columns lie in one piece of memory each; oneDNN's flag
    of its order, and the distance between its rows or columns."""
    rows, columns = matrix.shape
    down, right = matrix.strides
    if right == 1 and down >= columns:
        return matrix, b"N", down
    if down == 1 and right >= rows:
        return matrix, b"T", right
    return np.ascontiguousarray(matrix), b"N", columns


@cache
def load_one_dnn() -> OneDnn | None:
    """Returns oneDNN, or None if it is not installed or if its sums are not exact on this processor. (Without the
    instructions for products of bytes, VNNI, it adds pairs of products in 16 bits, which saturate.)"""
    if platform.machine() not in MACHINES:
        return None
    for path in _candidates():
        try:
            engine = OneDnn(ctypes.CDLL(path))
        except (OSError, AttributeError):
            continue
        try:
            return engine if _is_exact(engine) else None
        except (RuntimeError, MemoryError):
            return None
    return None


def loaded_version() -> str | None:
    """Returns the version of oneDNN, or None if this process has not loaded it."""
    engine = load_one_dnn() if load_one_dnn.cache_info().currsize else None
    return None if engine is None else engine.version


def _candidates() -> Iterator[str]:
    for package in PACKAGES:
        try:
            files = distribution(package).files or []
        except PackageNotFoundError:
            continue
        yield from (str(file.locate()) for file in files if file.name in LIBRARIES)
    yield from LIBRARIES


def _is_exact(engine: OneDnn) -> bool:
    """Returns whether the engine sums the largest and the smallest products, and random ones, exactly."""
    random = np.random.default_rng(0)
    for rows, terms, columns in TRIALS:
        for dtype in (np.uint8, np.int8):
            low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
            b = random.integers(-128, 128, (terms, columns)).astype(np.int8)
            a = random.integers(low, high + 1, (rows, terms)).astype(dtype)
            a[0], b[:, 0], b[:, -1] = high, 127, -128
            bias, zeros = random.integers(-9999, 9999, rows).astype(np.int32), (int(a[0, 0]) - 3, -5)
            centred = (a.astype(np.int64) - zeros[0]) @ (b.astype(np.int64) - zeros[1])
            for x, z, wanted in ((a, (0, 0), a.astype(np.int64) @ b), (a, zeros, centred + bias[:, None])):
                out = np.zeros((rows, columns), np.int32)
                engine.multiply(x, b, z, out, bias if z == zeros else None)
                if not np.array_equal(out, wanted):
                    return False
            engine.multiply(np.asfortranarray(a), np.asfortranarray(b), zeros, out, add=True)
            if not np.array_equal(out, 2 * centred + bias[:, None]):
                return False
    return True
