"""Renders the loss of quantization by tensor, as a curve in running order and as a table, and the results of
what-if."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.plural import count
from qverify.renderers.html_page.curve import CurvePoint, figures
from qverify.renderers.html_page.elements import code, element, number, table, text
from qverify.report.triage_document import TensorLoss, TriageDocument

HEADS = (
    "tensor", "op", "SQNR dB", "cosine", "RMSE", "lost here, dB", "clipped", "range used", "quantized range",
    "float range", "step", "weights dB", "alone: worst output", "alone: cosine",
)  # fmt: skip


def losses(document: TriageDocument) -> str:
    """Returns the section, or "" if nothing was measured."""
    if not document.losses:
        return ""
    tensors = [name for unit in document.units for name in unit.outputs]
    order = {name: at for at, name in enumerate(tensors)}
    ranked = any(row.single is not None for row in document.losses)
    in_running_order = sorted(enumerate(document.losses), key=lambda item: order.get(item[1].quantized, -1))
    points = [_curve_point(row, f"#loss{at}") for at, row in in_running_order]
    rule = "the most sensitive first" if ranked else "in running order"
    rows = [_row(row) for row in document.losses]
    caption = f"loss of {count(len(rows), 'tensor')}, {rule}; accumulated, with the whole network quantized"
    return figures(points, "float ~ quantized", "loss-curve") + _add_row_ids(
        table(caption, HEADS, rows), document.losses
    )


def _add_row_ids(table_html: str, rows: Sequence[TensorLoss]) -> str:
    """Returns the table with an id in each row of its body, to which the curve links."""
    head, body, tail = table_html.partition("<tbody>")
    for at in range(len(rows)):
        tail = tail.replace("<tr>", f'<tr id="loss{at}">', 1)
    return head + body + tail


def _curve_point(row: TensorLoss, link: str) -> CurvePoint:
    values = {"sqnr_db": row.sqnr_db, "cosine": row.cosine}
    return CurvePoint(row.tensor, row.op or "input", link, free={n: v for n, v in values.items() if v == v})


def _row(row: TensorLoss) -> list[str]:
    single = row.single
    return [
        code(row.tensor),
        text(row.op or "input"),
        f"{row.sqnr_db:.1f}",
        f"{row.cosine:.6f}",
        number(row.rmse),
        "" if row.drop_db is None else f"{row.drop_db:.1f}",
        f"{row.clipped:.2%}",
        f"{row.used:.0%}",
        f"{number(row.low)} .. {number(row.high)}",
        f"{number(row.float_low)} .. {number(row.float_high)}",
        number(row.step),
        "" if row.weights_sqnr_db is None else f"{row.weights_sqnr_db:.1f}",
        "" if single is None else code(single.worst_output),
        "" if single is None else f"{single.cosine:.6f}",
    ]


def what_if(document: TriageDocument) -> str:
    """Returns a table of the worst output if a few tensors stay in float, or "" if that was not tried."""
    tested = document.what_if
    if tested is None:
        return ""
    steps = [("none", tested.before), *((", ".join(s.tensors), s) for s in tested.steps)]
    rows = [[code(tensors), code(s.worst_output), f"{s.cosine:.6f}"] for tensors, s in steps]
    result = "the gate then passes" if tested.holds else "the gate still fails"
    summary = (
        f"{result}; searched: the {count(len(tested.candidates), 'most sensitive tensor')}, at most {tested.most} at once, "
        f"{count(tested.frames, 'frame')}, {count(tested.runs, 'run')}. Candidates: {', '.join(tested.candidates)}."
    )
    heads = ("in float32, which stands for 16 bit", "worst output", "its cosine")
    return table("everything quantized, except", heads, rows) + element("p", text(summary))
