"""The options by which a comparison is judged, the same on every command that judges."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from qverify.cli.numbers import AnyFinite, Finite
from qverify.compare.criteria import GATES, MOST_DIGITS, RULES, ExtraGate

EXTRA = tuple(gate.option for gate in GATES)
NAMES = ("digits", "dump_all", "rule", *EXTRA, "nan_equal")


def _number(gate: ExtraGate) -> AnyFinite:
    return AnyFinite() if gate.lowest is None else Finite(gate.lowest, gate.highest)


OPTIONS = (
    click.option(
        "-c",
        "--compare-digits",
        "digits",
        type=click.IntRange(0, MOST_DIGITS),
        help="decimal places that must match  [default: 5]",
    ),
    click.option(
        "--dump-all-nodes-results",
        "-r",
        "dump_all",
        default=False,
        type=click.BOOL,
        show_default=True,
        help="judge every node (-r True|False)",
    ),
    click.option(
        "--rule",
        type=click.Choice(RULES),
        default="half",
        show_default=True,
        help="what matching to N decimals means",
    ),
    *(click.option(g.flag, g.option, type=_number(g), help=g.unit) for g in GATES),
    click.option("--nan-equal", is_flag=True, help="NaN at the same place on both sides counts as equal"),
)


def judging(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options; the command gets them as one `options` (compare.options.Options)."""

    @wraps(command)
    def gathered(**given: Any) -> int:
        from qverify.compare.options import Options

        held = {name: given.pop(name) for name in NAMES}
        source = click.get_current_context().get_parameter_source
        named = frozenset(name for name in NAMES if source(name) is ParameterSource.COMMANDLINE)
        held["digits"] = 5 if held["digits"] is None else held["digits"]
        decimals, gates = bool(named & {"digits", "rule"}), any(held[n] is not None for n in EXTRA)
        return command(options=Options(given=decimals or gates, digits_given=decimals, named=named, **held), **given)

    for option in reversed(OPTIONS):
        gathered = option(gathered)
    return gathered


def shown(outcome: Any, dump_all: bool, json_path: str | None) -> int:
    """The report on stdout and in --json; its exit status."""
    from qverify.renderers import frames, json_file, terminal
    from qverify.report.document import EXIT

    if json_path != "-":
        many = outcome.report.frames
        click.echo(frames.render(outcome.report) if many else terminal.render(outcome.report, outcome.finals, dump_all))
    if json_path:
        json_file.write(outcome.report, json_path)
    return EXIT[outcome.report.verdict]
