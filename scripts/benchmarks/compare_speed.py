"""Measures the node-by-node comparison of as many tensors as ResNet-50 has, and Polygraphy's comparator on the same
arrays."""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from benchmarks.measure import peak_mb

ELEMENTS, TENSORS, SHARE = 26_000_000, 122, 0.10


def arrays(seed: int = 0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns two sets of 122 int8 tensors with 26 M elements in all. In the second set, 10 % of the elements of each
    tensor differ by one to three LSB."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(TENSORS, 0.8))
    first, second = {}, {}
    for i, share in enumerate(shares):
        count = max(64, int(share * ELEMENTS))
        a = rng.integers(-120, 121, count, dtype=np.int8)
        b = a.copy()
        at = rng.choice(count, max(1, int(count * SHARE)), replace=False)
        b[at] += rng.choice(np.array([-3, -2, -1, 1, 2, 3], np.int8), len(at))
        first[f"t{i}"], second[f"t{i}"] = a, b
    return first, second


def ours() -> float:
    """Returns the seconds that all metrics over all tensors take, in memory."""
    from qverify.compare.options import Options
    from qverify.compare.verdict import judge_all
    from qverify.tensors.recording import Recording
    from qverify.tensors.spec import TensorSpec

    first, second = arrays()
    specs = {n: TensorSpec(n, "int8", a.shape, scale=(0.05,), zero_point=(3,)) for n, a in first.items()}
    sides = {
        name: Recording(
            name, name, specs=specs, finals=("t0",), tensors=held, capabilities=frozenset({"finals", "per_node"})
        )
        for name, held in (("reference", first), ("simulator", second))
    }
    judge_all(sides, None, [], Options(dump_all=True), {}, None)
    start = time.perf_counter()
    judge_all(sides, None, [], Options(dump_all=True), {}, None)
    return time.perf_counter() - start


def polygraphy() -> float:
    """Returns the seconds that Polygraphy's Comparator.compare_accuracy takes with its default metric, without
    logging."""
    from polygraphy.comparator import Comparator, CompareFunc, IterationResult, RunResults
    from polygraphy.logger import G_LOGGER

    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    first, second = ({n: v.astype(np.float32) for n, v in side.items()} for side in arrays())
    results = RunResults()
    results.append(("a", [IterationResult(first, runner_name="a")]))
    results.append(("b", [IterationResult(second, runner_name="b")]))
    start = time.perf_counter()
    Comparator.compare_accuracy(results, compare_func=CompareFunc.simple(check_error_stat="max"))
    return time.perf_counter() - start


if __name__ == "__main__":
    seconds = {"ours": ours, "polygraphy": polygraphy}[sys.argv[1]]()
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb()}))
