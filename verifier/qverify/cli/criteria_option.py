"""--criteria: a vendor's thresholds as gates, an option of every command that judges."""

from __future__ import annotations

from typing import Any

import click

from qverify.compare.vendor_criteria import CRITERIA, find_gates
from qverify.vendor_names import known_spelling


class _Criteria(click.Choice[str]):
    """A vendor, of some with tolerances behind it (sophgo:0.90,0.80)."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        word, colon, limits = str(value).partition(":")
        vendor = super().convert(known_spelling(word, CRITERIA), param, ctx)
        find_gates(f"{vendor}{colon}{limits}")
        return f"{vendor}{colon}{limits}"


CRITERIA_OPTION = click.option(
    "--criteria",
    "criteria",
    multiple=True,
    type=_Criteria(list(CRITERIA)),
    metavar="VENDOR",
    help=f"that vendor's thresholds as the gate, named in the verdict line, and its familiar lines beside ours: {', '.join(CRITERIA)}; sophgo:0.90,0.80 for other tolerances",
)


def apply_criteria(vendors: tuple[str, ...], values: dict[str, Any], named: set[str]) -> str:
    """Adds the gates of --criteria to the options and returns the vendor's name, "" without one.

    vendors: the values of --criteria. values: the options by name, to which the gates are added. named: the options
    that the user set; -c may be one of them, it sets the number of decimals of horizon's criteria. Raises UsageError
    for two vendors, or if an option sets the same limit."""
    if not vendors:
        return ""
    if len(set(vendors)) > 1:
        raise click.UsageError(f"--criteria {' and '.join(dict.fromkeys(vendors))}: give one")
    vendor = vendors[0]
    for name, value in find_gates(vendor).items():
        if name == "digits" and name in named:
            continue
        if name in named:
            raise click.UsageError(
                f"--criteria {vendor} and an option for {name.replace('_', ' ')} are both given; give one"
            )
        values[name] = value
        named.add(name)
    named.add("criteria")
    return vendor
