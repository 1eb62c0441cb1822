"""Does onnxruntime on this host compute the integer kernels as NUMERICS.md says: one-node models with known answers."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from qverify.onnx_model.engine import Engine, version

ELEMENT = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "float32": TensorProto.FLOAT}


def _run(
    kind: str, inputs: dict[str, Any], names: list[str], y: str, feed: str, domain: str = "", **attributes: Any
) -> Any:
    """One node; every input but `feed` is an initializer."""
    node = helper.make_node(kind, names, ["y"], domain=domain, **attributes)
    x = inputs[feed]
    graph = helper.make_graph(
        [node],
        "canary",
        [helper.make_tensor_value_info(feed, ELEMENT[str(x.dtype)], x.shape)],
        [helper.make_tensor_value_info("y", ELEMENT[y], None)],
        [numpy_helper.from_array(v, n) for n, v in inputs.items() if n != feed],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    )
    model.ir_version = 8
    return Engine(model.SerializeToString(), threads=1).run({feed: x})["y"]


def _matmul(a_type: str, b_type: str) -> bool:
    """Extreme values: 16-bit saturation in the kernel gives another sum."""
    rng = np.random.Generator(np.random.PCG64(1))
    low_b = np.iinfo(b_type)
    a = rng.choice(np.array([np.iinfo(a_type).min, np.iinfo(a_type).max], a_type), (8, 64))
    b = rng.choice(np.array([low_b.min, low_b.max], b_type), (64, 16))
    scale = np.float32(1 / 4096)
    inputs = {
        "a": a,
        "as": np.float32(1),
        "az": np.array(0, a_type),
        "b": b,
        "bs": scale,
        "bz": np.array(0, b_type),
        "ys": np.float32(1),
        "yz": np.array(3, a_type),
    }
    got = _run("QLinearMatMul", {k: np.asarray(v) for k, v in inputs.items()}, list(inputs), a_type, "a")
    value = np.rint((a.astype(np.int64) @ b.astype(np.int64)).astype(np.float32) * scale) + 3
    limits = np.iinfo(a_type)
    return bool((got == np.clip(value, limits.min, limits.max).astype(a_type)).all())


def _add() -> bool:
    """Ties: the zero point stands inside the rounding, and the sum is fused."""
    a = np.arange(256, dtype=np.uint8).repeat(256).reshape(256, 256)
    b = np.tile(np.arange(256, dtype=np.uint8), (256, 1))
    inputs = {
        "a": a,
        "as": np.float32(0.5),
        "az": np.array(3, np.uint8),
        "b": b,
        "bs": np.float32(0.25),
        "bz": np.array(7, np.uint8),
        "ys": np.float32(1),
        "yz": np.array(5, np.uint8),
    }
    got = _run("QLinearAdd", {k: np.asarray(v) for k, v in inputs.items()}, list(inputs), "uint8", "a", "com.microsoft")
    value = (a.astype(np.float64) - 3) * 0.5 + (b.astype(np.float64) - 7) * 0.25 + 5
    return bool((got == np.clip(np.rint(value), 0, 255).astype(np.uint8)).all())


def _sigmoid() -> bool:
    """At a small output scale, within 1 LSB of the real sigmoid: finds a wrong kernel, not a missing fused multiply-add."""
    x = np.arange(256, dtype=np.uint8)
    inputs = {
        "x": x,
        "xs": np.float32(0.03),
        "xz": np.array(255, np.uint8),
        "ys": np.float32(1e-4),
        "yz": np.array(0, np.uint8),
    }
    got = _run(
        "QLinearSigmoid", {k: np.asarray(v) for k, v in inputs.items()}, list(inputs), "uint8", "x", "com.microsoft"
    )
    real = 1 / (1 + np.exp(-(x.astype(np.float64) - 255) * 0.03)) / 1e-4
    return bool((np.abs(got.astype(np.float64) - np.clip(real, 0, 255)) <= 1).all())


def _softmax() -> bool:
    """One dominating element must saturate, not wrap."""
    x = np.full((1, 8), -128, np.int8)
    x[0, 3] = 127
    inputs = {
        "x": x,
        "xs": np.float32(0.5),
        "xz": np.array(0, np.int8),
        "ys": np.float32(1 / 256),
        "yz": np.array(-128, np.int8),
    }
    got = _run(
        "QLinearSoftmax",
        {k: np.asarray(v) for k, v in inputs.items()},
        list(inputs),
        "int8",
        "x",
        "com.microsoft",
        axis=1,
        opset=17,
    )
    return bool(got[0, 3] == 127 and (np.delete(got[0], 3) == -128).all())


CANARIES = {
    "QLinearMatMul u8u8": lambda: _matmul("uint8", "uint8"),
    "QLinearMatMul u8s8": lambda: _matmul("uint8", "int8"),
    "QLinearMatMul s8s8": lambda: _matmul("int8", "int8"),
    "QLinearAdd": _add,
    "QLinearSigmoid": _sigmoid,
    "QLinearSoftmax s8": _softmax,
}


def canary(use_cache: bool = True) -> dict[str, Any]:
    """{"engine", "checked", "failing"}: op types whose kernel does not give the known bits here; kept per machine and version."""
    key = hashlib.sha256(f"{version()} {platform.machine()} {_processor()} {sorted(CANARIES)}".encode()).hexdigest()[
        :16
    ]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qverify"
    path = base / f"canary-{key}.json"
    if use_cache:
        try:
            kept = json.loads(path.read_text())
            if set(kept) == {"engine", "checked", "failing"}:
                return dict(kept)
        except (OSError, ValueError):
            pass
    failing = [name for name, check in CANARIES.items() if not check()]
    result = {"engine": f"onnxruntime {version()}", "checked": list(CANARIES), "failing": failing}
    try:
        base.mkdir(parents=True, exist_ok=True)
        part = base / f"{path.name}.{os.getpid()}"
        part.write_text(json.dumps(result))
        part.replace(path)
    except OSError:
        pass
    return result


def _processor() -> str:
    try:
        return next(
            line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(("flags", "Features"))
        )
    except (OSError, StopIteration):
        return platform.processor()
