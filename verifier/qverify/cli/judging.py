"""The options by which a comparison is judged, the same on every command that judges."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from qverify.cli.numbers import Finite

RULES = ("half", "round", "truncate", "numpy", "exact")
NAMES = (
    "digits",
    "dump_all",
    "rule",
    "atol",
    "rtol",
    "min_cosine",
    "min_sqnr_db",
    "max_rmse",
    "max_lsb",
    "nan_equal",
)
OPTIONS = (
    click.option(
        "-c",
        "--compare-digits",
        "digits",
        type=click.IntRange(0, 15),
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
    click.option("--atol", type=Finite(0)),
    click.option("--rtol", type=Finite(0)),
    click.option("--min-cosine", type=Finite(-1, 1)),
    click.option("--min-sqnr", "min_sqnr_db", type=float, help="dB"),
    click.option("--max-rmse", type=Finite(0)),
    click.option("--max-lsb", type=Finite(0)),
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
        decimals, gates = bool(named & {"digits", "rule"}), any(held[n] is not None for n in NAMES[3:9])
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
