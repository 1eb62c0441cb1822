"""Chooses what the next step of a rung rests on."""

from __future__ import annotations

from collections.abc import Mapping

from qverify.compare.untapped import CAUSE, OPTIMIZATION
from qverify.report.triage_document import Rung, Stage
from qverify.report.untapped import QUESTION

LOSSY_STAGES = (
    "reference",
    "fake-quantized",
)  # kinds of stages whose rung from the stage before shows quantization loss


def is_lossy(rung: Rung, stages: Mapping[str, Stage]) -> bool:
    """Returns whether the rung fails by a loss of quantization that must still be located."""
    return rung.verdict == "FAILED" and stages[rung.b].kind in LOSSY_STAGES and rung.kind != "clipped_output"


def advice_key(stages: Mapping[str, Stage], rung: Rung) -> str:
    """Returns the key by which triage/advice.py finds its advice: the kind of stage that the rung judges."""
    if rung.a == "inputs":
        return "inputs"
    kind = stages[rung.b].kind
    if kind == "simulator" and stages[rung.a].kind == "float":
        return "quantized"
    return {"reference": "quantized", "fake-quantized": "quantized", "simulator": "integer", "engine": "dump"}.get(
        kind, kind
    )


def reason(rung: Rung) -> str:
    """Returns the details that the next step contains."""
    if rung.kind == "region" and rung.blame is not None:
        return rung.blame.place
    if rung.kind in (CAUSE, OPTIMIZATION):
        begins = (QUESTION, "with level=")
        return next((line for line in rung.evidence if line.startswith(begins)), rung.why)
    return "; ".join(rung.arithmetics) if rung.kind == "other_rounding" else rung.why
