"""Checks that onnxruntime on this host computes the reference's kernels as NUMERICS.md specifies, by running one-node
models with known results.

The known results are digests of what the simulator computes (tests/plain/test_canary.py computes them again). Those of
QLinearSigmoid and QLinearLeakyRelu, whose tables come from onnxruntime, were recorded on x86-64 with fused
multiply-add."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from pathlib import Path
from typing import Any

from qverify.errors import BadFileError
from qverify.onnx_model.engine import Engine, version
from qverify.tensors.digest import tensor_digest

KNOWN_DIGESTS = {
    "QLinearConv u8u8": "a9395c26fefc20fc",
    "QLinearConv u8s8": "3b3efffdc802ea94",
    "QLinearConv s8s8": "827d31c1f4994b05",
    "QLinearMatMul u8u8": "c146173b8bc6ca90",
    "QLinearMatMul u8s8": "9df558ac1c52bfd6",
    "QLinearMatMul s8s8": "29bf9e420118ba66",
    "QGemm u8u8": "9d963470b47af4d9",
    "QGemm u8s8": "0ed6754819f754d3",
    "QGemm s8s8": "9070e3589ccf0e73",
    "MatMulInteger u8u8": "5ffc8c1356f4aaf8",
    "MatMulInteger u8s8": "8b4f83f16c832db7",
    "ConvInteger u8u8": "9d8a064b7b48d294",
    "ConvInteger u8s8": "dc4ecc0540f070dd",
    "QLinearAdd u8": "80697850871097d7",
    "QLinearAdd s8": "d6bf55c63b797a60",
    "QLinearMul u8": "e88223c1ae00b270",
    "QLinearSigmoid u8": "e468e1ecfdfa290c",
    "QLinearLeakyRelu s8": "937e5d668c3fb070",
    "QLinearSoftmax s8": "9187be218ae6c30e",
    "QLinearAveragePool u8": "a7af81736cf11db9",
    "QLinearGlobalAveragePool u8": "c619681dc90f2537",
    "QuantizeLinear u8": "d8f95011ea66447f",
    "Tanh": "b8143b9ed4daf8e0",
    "Softmax": "3c01f84c5f58a73d",
}
MIXED = " u8s8"  # suffix of the canaries for products of uint8 by int8; if they fail, exact_products.py replaces them
SAME_KERNEL = {
    "MatMulInteger": {"MatMulIntegerToFloat", "QAttention", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"}
}  # canary operator to the operators that use the same kernel


def kernel_is_known(name: str) -> bool:
    """Returns whether onnxruntime computes the known result on this host; False if it refuses to run the kernel."""
    from qverify.onnx_model.canary_models import CANARIES

    model, feed = CANARIES[name]()
    try:
        output = Engine(model.SerializeToString(), threads=1).run(feed)["y"]
    except BadFileError:
        return False
    return tensor_digest(output) == KNOWN_DIGESTS[name]


def failing_kinds(result: dict[str, Any], mixed: bool = False) -> set[str]:
    """Returns the ONNX operator types of the failing canaries, and those that use the same kernels.

    mixed: True for the canaries of products of uint8 by int8 only (see exact_products.py), False for all others."""
    kinds = {str(name).split()[0] for name in result.get("failing", []) if str(name).endswith(MIXED) == mixed}
    return kinds.union(*(SAME_KERNEL.get(kind, set()) for kind in kinds))


def run_canaries(use_cache: bool = True) -> dict[str, Any]:
    """Runs the canaries and returns {"engine", "checked", "failing"}; "failing" lists those whose kernel does not
    compute the known result on this host. The result is cached per machine and onnxruntime version."""
    key = hashlib.sha256(
        f"{version()} {platform.machine()} {_processor()} {sorted(KNOWN_DIGESTS.items())}".encode()
    ).hexdigest()[:16]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qverify"
    path = base / f"canary-{key}.json"
    if use_cache:
        try:
            cached = json.loads(path.read_text())
            if isinstance(cached, dict) and set(cached) == {"engine", "checked", "failing"}:
                return dict(cached)
        except (OSError, ValueError):
            pass
    failing = [name for name in KNOWN_DIGESTS if not kernel_is_known(name)]
    result = {"engine": f"onnxruntime {version()}", "checked": list(KNOWN_DIGESTS), "failing": failing}
    try:
        base.mkdir(parents=True, exist_ok=True)
        part = base / f"{path.name}.{os.getpid()}"
        part.write_text(json.dumps(result))
        part.replace(path)
    except OSError:
        pass
    return result


def _processor() -> str:
    """Returns a text that identifies the processor's features, part of the cache key."""
    try:
        return next(
            line
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith(("flags", "Features"))
        )
    except (OSError, StopIteration):
        return platform.processor()
