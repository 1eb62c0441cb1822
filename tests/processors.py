"""The processor features that a run of the tests exercises, natively and with features switched off.

`python -m tests.processors` prints them; scripts/test does so at its end."""

from __future__ import annotations

import os
import platform

from numpy._core import _multiarray_umath as umath

AVX512 = ("AVX512", "X86_V4")  # beginnings of the names of numpy's groups of features that have AVX-512


def dispatched() -> list[str]:
    """Returns the groups of features beyond its baseline that numpy uses on this processor."""
    return [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__.get(name)]


def environments() -> dict[str, dict[str, str]]:
    """Returns the environments in which results must be the same, by name: numpy without AVX-512 and OpenBLAS for AVX2,
    numpy without both, OpenBLAS for AVX-512 where this processor has it. On a processor without such features there are
    fewer."""
    wide = [name for name in dispatched() if name.startswith(AVX512)]
    found = {}
    if platform.machine() == "x86_64":
        found["AVX2"] = {"NPY_DISABLE_CPU_FEATURES": " ".join(wide), "OPENBLAS_CORETYPE": "Haswell"}
        found["SSE4.2"] = {"NPY_DISABLE_CPU_FEATURES": " ".join(dispatched()), "OPENBLAS_CORETYPE": "Nehalem"}
        if wide:
            found["AVX-512"] = {"OPENBLAS_CORETYPE": "SkylakeX"}
    return found


def describe() -> str:
    """Returns one line on the features that were exercised."""
    from qverify.onnx_model.exact_products import inexact_kernels

    products = "saturate" if inexact_kernels() else "are exact"
    others = ", ".join(f"{name} ({environment})" for name, environment in _shown().items()) or "none"
    native = " ".join(dispatched()) or "its baseline"
    return (
        f"processor features: {platform.machine()}, numpy {native}; onnxruntime's products of uint8 by int8 {products} here; "
        f"results compared with: {others}"
    )


def _shown() -> dict[str, str]:
    return {n: ", ".join(f"{k}={v}" for k, v in e.items() if v) for n, e in environments().items()}


if __name__ == "__main__":
    print(describe(), f"(OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', 'unset')})")
