"""Two Recordings to one Pair: the ledger, every tensor's metrics, and the free-running verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.compare.measure import Measured, measure
from qverify.compare.options import Options
from qverify.model_bin.units import Unit
from qverify.report.document import Pair, TensorRow, Verdict
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
Fetch = Callable[[str, str], Array | None]  # side, tensor -> value


def judge(
    a: Recording, b: Recording, unit_of: dict[str, Unit], options: Options, fetch: Fetch, exact_gate: bool
) -> Pair:
    """exact_gate: bit equality decides (simulator against board, unless the user named a gate)."""
    pair = Pair(a.side, b.side, gate="bit equality" if exact_gate else f"{options.digits} decimals ({options.rule})")
    names = [n for n in a.specs if n in b.specs]
    pair.coverage.not_offered = sorted(set(a.specs) ^ set(b.specs))
    gated = set(names) if exact_gate or options.dump_all else {n for n in a.finals if n in b.finals}
    expected = [n for n in names if n in gated] + [n for n in a.finals if n not in names and n in b.finals]
    pair.coverage.expected = len(expected)
    for name in names:
        row = _row(name, a, b, unit_of, options, fetch, exact_gate, pair, name in gated)
        if row is not None:
            pair.tensors.append(row)
            if row.gated:
                pair.coverage.compared += 1
                pair.coverage.elements += row.elements
    for name in expected:
        if name not in names:
            pair.coverage.missing.append(
                {"tensor": name, "side": a.side if name not in a.specs else b.side, "why": "not declared"}
            )
    _verdict(pair, a, b)
    return pair


def _missing(name: str, side: Recording) -> str:
    if side.state == "did not run":
        return side.why or "the side did not run"
    return side.missing.get(name, "")


def _row(
    name: str,
    a: Recording,
    b: Recording,
    unit_of: dict[str, Unit],
    options: Options,
    fetch: Fetch,
    exact_gate: bool,
    pair: Pair,
    gated: bool,
) -> TensorRow | None:
    for side in (a, b):
        why = _missing(name, side)
        if why:
            if gated:
                pair.coverage.missing.append({"tensor": name, "side": side.side, "why": why})
            return None
    spec, other = a.specs[name], b.specs[name]
    if (spec.dtype, spec.shape) != (other.dtype, other.shape):
        return _broken(
            name,
            spec,
            unit_of,
            gated,
            f"{a.side} has {spec.dtype}{list(spec.shape)}, {b.side} has {other.dtype}{list(other.shape)}",
        )
    digests = (a.digests.get(name), b.digests.get(name))
    equal = digests[0] == digests[1] if all(digests) else None
    if equal and spec.dtype not in ("float32", "float64"):
        return _describe(
            name,
            spec,
            unit_of,
            gated,
            Measured(elements=spec.elements, max_lsb=0.0 if spec.quantized else None),
            "PASSED",
            "",
            True,
        )
    values = fetch(a.side, name), fetch(b.side, name)
    for side, value in zip((a, b), values, strict=True):
        if value is None:
            if gated:
                pair.coverage.missing.append(
                    {"tensor": name, "side": side.side, "why": side.missing.get(name) or "its bytes did not come"}
                )
            return None
    first, second = values
    assert first is not None and second is not None
    if first.shape != spec.shape or second.shape != spec.shape or first.dtype != second.dtype:
        return _broken(
            name,
            spec,
            unit_of,
            gated,
            f"{a.side} gave {first.dtype}{list(first.shape)}, {b.side} gave {second.dtype}{list(second.shape)}, wanted {spec.dtype}{list(spec.shape)}",
        )
    found = measure(spec, first, second, options.digits, options.rule)
    verdict, why = _passes(found, options, exact_gate, first, second)
    row = _describe(name, spec, unit_of, gated, found, verdict, why, equal)
    if name in a.finals:
        row.same_arg_max, row.top5_shared = ranking(first, second)
    return row


def _passes(found: Measured, options: Options, exact_gate: bool, a: Array, b: Array) -> tuple[Verdict, str]:
    if found.elements == 0:
        return "INCONCLUSIVE", "no elements"
    if found.one_sided:
        return "FAILED", f"{found.one_sided} elements are NaN or infinite on one side only"
    if found.both_not_finite and not options.nan_equal:
        return (
            "INCONCLUSIVE",
            f"{found.both_not_finite} elements are NaN or infinite on both sides; --nan-equal accepts that",
        )
    if exact_gate:
        return (
            ("FAILED", f"{found.mismatched} of {found.elements} elements differ")
            if found.mismatched
            else ("PASSED", "")
        )
    checks = [
        (
            found.unmatched > 0 and options.atol is None and options.rtol is None,
            f"{found.unmatched} elements do not match to {options.digits} decimals",
        ),
        (
            options.min_cosine is not None and not found.cosine >= (options.min_cosine or 0),
            f"cosine {found.cosine:.6f}",
        ),
        (
            options.min_sqnr_db is not None and not found.sqnr_db >= (options.min_sqnr_db or 0),
            f"SQNR {found.sqnr_db:.2f} dB",
        ),
        (options.max_rmse is not None and not found.rmse <= (options.max_rmse or 0), f"RMSE {found.rmse:.3g}"),
        (
            options.max_lsb is not None and found.max_lsb is not None and not found.max_lsb <= (options.max_lsb or 0),
            f"{found.max_lsb} LSB",
        ),
        (not _close(a, b, options), "beyond atol/rtol"),
    ]
    failing = [why for failed, why in checks if failed]
    return ("FAILED", "; ".join(failing)) if failing else ("PASSED", "")


def _close(a: Array, b: Array, options: Options) -> bool:
    if options.atol is None and options.rtol is None:
        return True
    return bool(
        np.allclose(
            b.astype(np.float64),
            a.astype(np.float64),
            rtol=options.rtol or 0.0,
            atol=options.atol or 0.0,
            equal_nan=options.nan_equal,
        )
    )


def _describe(
    name: str,
    spec: TensorSpec,
    unit_of: dict[str, Unit],
    gated: bool,
    found: Measured,
    verdict: Verdict,
    why: str,
    equal: bool | None,
) -> TensorRow:
    unit = unit_of.get(name)
    covers = [c for node in unit.nodes for c in node.covers] if unit else []
    return TensorRow(
        name,
        unit.name if unit else name,
        unit.op if unit else "",
        covers,
        spec.dtype,
        list(spec.shape),
        verdict,
        equal,
        found.elements,
        found.mismatched,
        found.max_abs,
        found.max_lsb,
        found.matching_digits,
        found.cosine,
        found.rmse,
        found.sqnr_db,
        found.lsb_histogram,
        gated=gated,
        why=why,
    )


def _broken(name: str, spec: TensorSpec, unit_of: dict[str, Unit], gated: bool, why: str) -> TensorRow:
    nan = float("nan")
    found = Measured(spec.elements, spec.elements, spec.elements, nan, None, -1, nan, nan, nan)
    return _describe(name, spec, unit_of, gated, found, "FAILED", why, False)


def ranking(a: Array, b: Array) -> tuple[bool | None, int | None]:
    """Same arg-max, and how many of the top 5 are shared; None for tensors where it means nothing."""
    first, second = a.reshape(-1), b.reshape(-1)
    if first.size < 2 or first.dtype.kind == "b":
        return None, None
    top = [set(np.argsort(-x.astype(np.float64), kind="stable")[:5].tolist()) for x in (first, second)]
    return bool(first.argmax() == second.argmax()), len(top[0] & top[1])


def _verdict(pair: Pair, a: Recording, b: Recording) -> None:
    gated = [row for row in pair.tensors if row.gated]
    pair.bit_equal = bool(gated) and not any(r.mismatched for r in pair.tensors) and pair.coverage.full
    stopped = [s for s in (a, b) if s.state != "complete"]
    if any(r.verdict == "FAILED" for r in gated):
        pair.verdict = "FAILED"
    elif stopped or not pair.coverage.full or any(r.verdict == "INCONCLUSIVE" for r in gated):
        pair.verdict = "INCONCLUSIVE"
    else:
        pair.verdict = "PASSED"
    if stopped:
        pair.why = f"{stopped[0].side}: {stopped[0].why}"
    elif pair.coverage.missing:
        first = pair.coverage.missing[0]
        pair.why = (
            f"{len(pair.coverage.missing)} tensors missing, first {first['tensor']} of {first['side']}: {first['why']}"
        )
    elif not pair.coverage.compared:
        pair.why = "nothing was compared"
    elif pair.verdict != "PASSED":
        pair.why = next((f"{r.name}: {r.why}" for r in gated if r.verdict != "PASSED"), "")
