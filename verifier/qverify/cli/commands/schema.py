"""Prints the JSON Schema of what --json writes: a report, or the results of triage."""

from __future__ import annotations

import json
from typing import Literal

import click


@click.command(help=__doc__)
@click.argument("of", type=click.Choice(("report", "triage")), default="report")
def command(of: Literal["report", "triage"]) -> int:
    from qverify.report.schema import report_schema, triage_schema

    click.echo(json.dumps(report_schema() if of == "report" else triage_schema(), indent=2, sort_keys=True))
    return 0
