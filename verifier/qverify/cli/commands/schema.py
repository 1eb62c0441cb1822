"""Prints the JSON Schema of what --json writes: a report, the results of triage, or the difference of two reports."""

from __future__ import annotations

import click


@click.command(help=__doc__)
@click.argument("of", metavar="[report|triage|diff]", type=click.Choice(("report", "triage", "diff")), default="report")
def command(of: str) -> int:
    from qverify.report.schema import schema_text

    click.echo(schema_text(of))
    return 0
