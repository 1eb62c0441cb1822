"""--criteria: a vendor's thresholds as gates, the same on every command that judges."""

from __future__ import annotations

from typing import Any

import click

from qverify.compare.vendor_criteria import CRITERIA, find_gates

CRITERIA_OPTION = click.option(
    "--criteria",
    "criteria",
    multiple=True,
    type=click.Choice(list(CRITERIA)),
    metavar="VENDOR",
    help=f"that vendor's thresholds as the gate, named in the verdict line, and its familiar lines beside ours: {', '.join(CRITERIA)}",
)


def take_criteria(given: tuple[str, ...], values: dict[str, Any], named: set[str]) -> str:
    """Adds the gates of --criteria to the options and returns its name, "" without one. UsageError where two are given,
    or an option sets the same limit; -c is the number of decimals of horizon's."""
    if not given:
        return ""
    if len(set(given)) > 1:
        raise click.UsageError(f"--criteria {' and '.join(dict.fromkeys(given))}: give one")
    for name, value in find_gates(given[0]).items():
        if name == "digits" and name in named:
            continue
        if name in named:
            raise click.UsageError(
                f"--criteria {given[0]} and an option for {name.replace('_', ' ')} are both given; give one"
            )
        values[name] = value
        named.add(name)
    named.add("criteria")
    return given[0]
