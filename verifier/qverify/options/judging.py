"""Judging: what counts as equal, and what is done about a difference."""

from __future__ import annotations

from qverify.compare.criteria import DIGITS, GATES, MAX_DIGITS, RULE, RULES
from qverify.compare.vendor_criteria import CRITERIA as VENDORS
from qverify.options.option import Number, Option, Whole

_GATE_KINDS = "decimals:N, exact, close:atol=A,rtol=R, cosine:X, sqnr:DB, euclid:X, rmse:X, lsb:N, no-fallback, OUTPUT.ROLE:METRIC>=X, with --task task:METRIC>=X or >=X*reference, with --steps tokens:topK; may be repeated, all must pass. "
_FORMS = {
    "atol": "Absolute tolerance",
    "rtol": "Relative tolerance",
    "min_cosine": "Least cosine",
    "max_lsb": "Largest difference in LSB",
}

COMPARE_DIGITS = Option(
    "-c --compare-digits",
    f"decimal places that must match  [default: {DIGITS}]",
    Whole(0, MAX_DIGITS),
    name="digits",
    weakens=True,
    form="Decimals compared (-c)",
)
DUMP_ALL = Option(
    "--dump-all-nodes-results -r",
    "judge every node (-r True|False)  [default: False; compare: every tensor]",
    "boolean",
    name="dump_all",
    form="Judge every node (-r)",
)
RULE_OPTION = Option(
    "--rule", f"what matching to N decimals means  [default: {RULE}]", RULES, hint="str | None", weakens=True
)
GATE = Option(
    "--gate",
    f"{_GATE_KINDS}Without decimals or exact (-c, --rule) they replace the decimals. The options below are their short forms. "
    "Gates do not apply to simulator against board: see --relax-board",
    name="gates",
    many=True,
    metavar="KIND:LIMIT",
    weakens=True,
)
RUNG_GATE = GATE.but(
    help=f"of the main job: {_GATE_KINDS}Of one rung of the ladder: A~B=exact, A~B=decimals:N or A~B=cosine:X"
)
CRITERIA = Option(
    "--criteria",
    f"that vendor's thresholds as the gate, named in the verdict line, and its familiar lines beside ours: {', '.join(VENDORS)}; sophgo:0.90,0.80 for other tolerances",
    "criteria",
    many=True,
    metavar="VENDOR",
    weakens=True,
)
LIMITS = {
    gate.option: Option(
        gate.flag,
        gate.help,
        Number(gate.lowest, gate.highest),
        name=gate.option,
        hint="int | None" if gate.option == "max_lsb" else "",
        weakens=True,
        form=_FORMS.get(gate.option, ""),
    )
    for gate in GATES
}
NAN_EQUAL = Option("--nan-equal", "NaN or Inf at the same place on both sides counts as equal", "flag", weakens=True)
RELAX_BOARD = Option(
    "--relax-board",
    "judge simulator against board by the gates instead of equal bits, over the same tensors",
    "flag",
    weakens=True,
)
STRICT = Option(
    "--strict",
    "judge what follows a node without an integer reference by the gate, too, not node by node",
    "flag",
    form="Strict",
)
LOSS = Option(
    "--loss",
    "measure the loss of tensors quantized one at a time, and what if they stay in float; auto: where the gate from float fails",
    ("auto", "always", "never"),
    "auto",
    shown=True,
)
EXPLAIN = Option(
    "--explain",
    "how long to test known faults at a node where the board is blamed; 0: not at all",
    Number(0, 3600),
    20.0,
    name="explain_s",
    metavar="SECONDS",
    shown=True,
)
FACT = Option(
    "--fact",
    "states something about the run for the report, such as firmware=1.2 or toolchain=2.3.0; may be repeated. Tags of the "
    "board in boards.toml are in the report, too; qverify report matrix has both as rows or columns",
    name="facts",
    many=True,
    metavar="KEY=VALUE",
    mapping=True,
)
REDUCE = Option(
    "--reduce",
    "reduce the model to the smallest part that still differs on the board, with everything to repeat it",
    metavar="DIR",
)
