"""The options on how a comparison is judged, which every command that judges has."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from qverify.cli.criteria_option import CRITERIA_OPTION, apply_criteria
from qverify.cli.numbers import AnyFinite, Finite
from qverify.compare.criteria import DIGITS, GATES, MAX_DIGITS, RULE, RULES, ExtraGate

GATE_OPTIONS = tuple(gate.option for gate in GATES)
NAMES = ("digits", "dump_all", "rule", *GATE_OPTIONS, "nan_equal", "relax_board", "strict")


def _number_type(gate: ExtraGate) -> AnyFinite:
    return AnyFinite() if gate.lowest is None and gate.highest is None else Finite(gate.lowest, gate.highest)


_GATE_KINDS = "decimals:N, exact, close:atol=A,rtol=R, cosine:X, sqnr:DB, euclid:X, rmse:X, lsb:N, no-fallback, with --steps tokens:topK; may be repeated, all must pass. "
_GATE_HELP = (
    f"{_GATE_KINDS}Without decimals or exact (-c, --rule) they replace the decimals. The options below are their short forms. "
    "Gates do not apply to simulator against board: see --relax-board"
)
_RUNG_GATE_HELP = f"of the main job: {_GATE_KINDS}Of one rung of the ladder: A~B=exact, A~B=decimals:N or A~B=cosine:X"


def _gate_option(help_text: str) -> Any:
    return click.option("--gate", "gates", multiple=True, metavar="KIND:LIMIT", help=help_text)


_BEFORE_GATES = (
    click.option(
        "-c",
        "--compare-digits",
        "digits",
        type=click.IntRange(0, MAX_DIGITS),
        help=f"decimal places that must match  [default: {DIGITS}]",
    ),
    click.option(
        "--dump-all-nodes-results",
        "-r",
        "dump_all",
        type=click.BOOL,
        help="judge every node (-r True|False)  [default: False; compare: every tensor]",
    ),
    click.option("--rule", type=click.Choice(RULES), help=f"what matching to N decimals means  [default: {RULE}]"),
)
_AFTER_GATES = (
    *(click.option(g.flag, g.option, type=_number_type(g), help=g.help) for g in GATES),
    CRITERIA_OPTION,
    click.option("--nan-equal", is_flag=True, help="NaN or Inf at the same place on both sides counts as equal"),
    click.option(
        "--relax-board",
        is_flag=True,
        help="judge simulator against board by the gates instead of equal bits, over the same tensors",
    ),
    click.option(
        "--strict",
        is_flag=True,
        help="judge what follows a node without an integer reference by the gate, too, not node by node",
    ),
)


def judging_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options. The command receives them as one `options` (compare.options.Options)."""
    return _add_options(command, _gate_option(_GATE_HELP), rungs=False)


def ladder_judging_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options to a command whose --gate may name a rung as well (`A~B=GATE`). The command receives these gates
    as `gates`, and everything else as judging_options gives it."""
    return _add_options(command, _gate_option(_RUNG_GATE_HELP), rungs=True)


def _add_options(command: Callable[..., int], gate_option: Any, rungs: bool) -> Callable[..., int]:
    """Returns the command with the options. rungs: whether --gate may name a rung."""

    @wraps(command)
    def wrapper(**others: Any) -> int:
        from qverify.compare.gate_text import parse_gates
        from qverify.compare.options import Options

        values = {name: others.pop(name) for name in NAMES}
        source = click.get_current_context().get_parameter_source
        named = {name for name in NAMES if source(name) is ParameterSource.COMMANDLINE}
        gates = others.pop("gates")
        if rungs:
            others["gates"] = tuple(gate for gate in gates if "~" in gate)
            gates = tuple(gate for gate in gates if "~" not in gate)
        for name, value in parse_gates(gates).items():
            if name in named:
                raise click.UsageError(f"--gate and the option for {name.replace('_', ' ')} are both given; give one")
            values[name] = value
            named.add(name)
        if "tokens_top" in values and others.get("steps") is None:
            raise click.UsageError("--gate tokens: it is of a sequence; give --steps N")
        values["criteria"] = apply_criteria(others.pop("criteria"), values, named)
        values |= {k: v for k, v in {"digits": DIGITS, "rule": RULE, "dump_all": False}.items() if values[k] is None}
        return command(
            options=Options(digits_given=bool(named & {"digits", "rule"}), named=frozenset(named), **values), **others
        )

    for option in reversed((*_BEFORE_GATES, gate_option, *_AFTER_GATES)):
        wrapper = option(wrapper)
    return wrapper
