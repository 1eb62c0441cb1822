"""The thresholds by which vendors judge, as gates, for `--criteria NAME`. Such a gate is one like any other: it applies
to value pairs, to simulator against board only with --relax-board, and every verdict line names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qverify.closest_names import did_you_mean
from qverify.compare.gate_text import parse_gates
from qverify.errors import UsageError
from qverify.vendor_names import known_spelling


@dataclass(frozen=True, slots=True)
class Criteria:
    """The criteria of one vendor.

    Attributes:
        gates: the thresholds in the form that --gate takes; qverify's own if the vendor publishes none.
        source: where the thresholds are published, and how they were expressed as gates.
    """

    gates: tuple[str, ...]
    source: str


CRITERIA = {
    "horizon": Criteria(
        ("decimals:5",),
        "hb_verifier and hb_model_verifier: 5 decimals, or -c; their rule is not published, --rule here",
    ),
    "axera": Criteria(("cosine:0.98",), "Pulsar's precision guide: a layer of cos-sim below 98 % is bad"),
    "sigmastar": Criteria(
        ("cosine:0.99", "sqnr:20"),
        "the guide of DumpDebug: COS < 0.99 or RMSE > 0.1 is bad; RMSE is the error's norm by the signal's, and 0.1 is 20 dB",
    ),
    "tidl": Criteria(("close:atol=0.01,rtol=0.005",), "TI's comparison of ONNX and TIDL: numpy's assert_allclose"),
    "rockchip": Criteria(
        ("cosine:0.98",),
        "accuracy_analysis prints cosine and distance of each layer; no threshold is published, and this one is qverify's",
    ),
    "sophgo": Criteria(
        ("cosine:0.99", "euclid:0.99"),
        "npz_tool --tolerance 0.99,0.99: cosine and 1 - ||a-b|| / ||(a+b)/2||; model_deploy uses sophgo:0.90,0.80 for INT8 "
        "against float, and sophgo:0.99,0.90 for a model against the text it was made of",
    ),
    "renesas": Criteria(
        ("exact",),
        "R-Car's Accurate Simulator: an exact match with the SoC; not for RZ/V, whose DRP-AI computes in float16",
    ),
    "rzv": Criteria(
        ("cosine:0.999", "close:atol=0.002,rtol=0.01"),
        "RZ/V2L and RZ/V2M compute in float16; no threshold is published, and this one is qverify's",
    ),
}
TOLERANCES = {"sophgo": ("cosine", "euclid")}  # of tools that take them on the command line


def find_gates(name: str) -> dict[str, Any]:
    """Returns the fields of Options that the criteria set. name: of a vendor; of one with TOLERANCES, these may follow
    (sophgo:0.90,0.80). Raises UsageError for an unknown name, and for tolerances that are none."""
    vendor, colon, limits = name.partition(":")
    vendor = known_spelling(vendor, CRITERIA)
    if vendor not in CRITERIA:
        raise UsageError(f"--criteria {name}: wanted one of {', '.join(CRITERIA)}{did_you_mean(vendor, CRITERIA)}")
    kinds = TOLERANCES.get(vendor, ())
    if not colon:
        return parse_gates(CRITERIA[vendor].gates)
    values = limits.split(",")
    if not kinds or len(values) != len(kinds):
        wanted = (
            f"{vendor}:{','.join(kind.upper() for kind in kinds)}" if kinds else f"{vendor}, which has no tolerances"
        )
        raise UsageError(f"--criteria {name}: wanted {wanted}")
    return parse_gates(f"{kind}:{value}" for kind, value in zip(kinds, values, strict=True))
