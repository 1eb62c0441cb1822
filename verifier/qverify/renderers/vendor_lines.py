"""Renders a report in the form of a vendor's own tool, for `--criteria`. These lines contain no verdict in the form
that scripts search; only the verdict lines do."""

from __future__ import annotations

import math
from collections.abc import Callable

from qverify.renderers.verdict_lines import NAMES
from qverify.report.document import Pair, ReportDocument, TensorRow

Lines = list[str]


def render(report: ReportDocument) -> str:
    """Returns the lines of the vendor of --criteria for every pair, or "" without a vendor or a compared tensor."""
    make = VENDORS.get(report.criteria.partition(":")[0])
    if make is None:
        return ""
    parts = []
    for pair in report.pairs:
        if pair.tensors:
            who = f"{NAMES.get(pair.a, pair.a)} VS {NAMES.get(pair.b, pair.b)}"
            parts.append("\n".join([f"in the words of {report.criteria}: {who}", *make(pair)]))
    return "\n\n".join(parts)


def _real(row: TensorRow, name: str) -> float:
    """Returns a metric, or NaN if the row does not have it."""
    value = row.metrics.get(name)
    return float(value) if isinstance(value, (int, float)) else math.nan


def _relative(row: TensorRow) -> float:
    """Returns the norm of the error divided by that of the signal."""
    return 10 ** (-_real(row, "sqnr_db") / 20)


RZV_ATOL = 0.01
RZV_TOLERANCES = f"absolute tolerance: {RZV_ATOL}, relative tolerance: 0.001"


def _horizon(pair: Pair) -> Lines:
    lines: Lines = []
    for row in (r for r in pair.tensors if r.verdict == "FAILED"):
        missed = row.failing or 0
        lines += [
            f"{row.name}:",
            f"mismatch result num: {missed}",
            f"total result num: {row.elements}",
            f"mismatch rate: {missed / row.elements if row.elements else math.nan:.6g}",
            f"max abs error: {_real(row, 'max_abs'):.6g}",
        ]
    return lines or [f"mismatch result num: 0 in {len(pair.tensors)} outputs"]


def _axera(pair: Pair) -> Lines:
    lines: Lines = []
    for row in pair.tensors:
        cosine = _real(row, "cosine")
        low = "" if cosine >= 0.98 else "  (below 98 %)"
        lines.append(f"Layer: {row.name}  2-norm RE: {100 * _relative(row):.2f}%  cosine-sim: {cosine:.4f}{low}")
    return lines


def _sigmastar(pair: Pair) -> Lines:
    lines, before = [], math.inf
    for at, row in enumerate(pair.tensors):
        now = _relative(row)
        over = " **** OVER threshold!!!! ****" if now - before > 1.0 else ""
        lines.append(
            f"{at}.{row.name} OP: {row.op.upper() or '-'} Type: {'float' if row.dtype.startswith('float') else row.dtype} "
            f"MSE: {_real(row, 'rmse') ** 2:.6f} COS: {_real(row, 'cosine'):.6f} RMSE: {now:.6f}{over}"
        )
        before = now
    return lines


def _tidl(pair: Pair) -> Lines:
    lines: Lines = []
    for row in pair.tensors:
        if row.beyond:
            share = 100 * row.beyond / row.elements
            lines.append(f"{row.name}: Not equal to tolerance of {pair.gate}")
            lines.append(f"Mismatched elements: {row.beyond} / {row.elements} ({share:.3g}%)")
        else:
            known = "0" if row.beyond == 0 or row.bit_equal else "not counted"
            lines.append(f"{row.name}: Mismatched elements: {known} / {row.elements}")
        lines.append(f"Max absolute difference: {_real(row, 'max_abs'):.8g}")
    return lines


def _rockchip(pair: Pair) -> Lines:
    labels = [f"[{row.op or '-'}] {row.name}" for row in pair.tensors]
    width = max(map(len, labels)) + 2
    columns = list(dict.fromkeys(column for row in pair.tensors for column in row.stated))
    heads = [f"{'layer_name':{width}}{'entire':20}" + "".join(f"{c:20}" for c in columns), f"{'':{width}}cos      euc"]
    lines = [head.rstrip() for head in heads]
    for label, row in zip(labels, pair.tensors, strict=True):
        own = f"{_real(row, 'cosine'):.5f} | {_real(row, 'rmse') * math.sqrt(row.elements):.5f}"
        cells = [own, *(row.stated.get(column, "") for column in columns)]
        lines.append(f"{label:{width}}{''.join(f'{cell:20}' for cell in cells)}".rstrip())
    return lines


def _sophgo(pair: Pair) -> Lines:
    lines: Lines = []
    for row in pair.tensors:
        state = "EQUAL" if row.bit_equal else "SIMILAR" if row.verdict == "PASSED" else "NOT_SIMILAR"
        lines.append(f"[{row.name}] {state} [{row.verdict}]")
        if not row.bit_equal:
            lines.append(f"    cosine_similarity      = {_real(row, 'cosine'):.6f}")
            lines.append(f"    euclidean_similarity   = {_real(row, 'euclidean_similarity'):.6f}")
            lines.append(f"    sqnr_similarity        = {_real(row, 'centred_sqnr_db'):.6f}")
    return lines


def _renesas(pair: Pair) -> Lines:
    lines: Lines = []
    for row in pair.tensors:
        different = int(_real(row, "mismatched")) if "mismatched" in row.metrics else row.elements
        ratio = 1 - different / row.elements if row.elements else math.nan
        lines.append(f"{row.name}: max abs diff: {_real(row, 'max_abs'):.8g}, correct ratio: {ratio:.6g}")
    return lines


def _rzv(pair: Pair) -> Lines:
    """Returns the lines of inference_comparison. Its ratio counts elements within its tolerances: it is 1 if the largest difference is;
    else the report does not have it."""
    lines: Lines = []
    for row in pair.tensors:
        apart = _real(row, "max_abs")
        ratio = f", correct ratio: 1, with {RZV_TOLERANCES}" if apart <= RZV_ATOL else ""
        lines.append(f"{row.name}: max abs diff: {apart:.8g}{ratio}")
    return lines


VENDORS: dict[str, Callable[[Pair], Lines]] = {
    "horizon": _horizon,
    "axera": _axera,
    "sigmastar": _sigmastar,
    "tidl": _tidl,
    "rockchip": _rockchip,
    "sophgo": _sophgo,
    "renesas": _renesas,
    "rzv": _rzv,
}
