"""Prints the JSON Schema of what --json writes: a report, the results of triage, the difference of two reports, the matrix of
many, or the difference of outputs."""

from __future__ import annotations

import click


@click.command(help=__doc__)
@click.argument(
    "of",
    metavar="[report|triage|diff|matrix|outputs]",
    type=click.Choice(("report", "triage", "diff", "matrix", "outputs")),
    default="report",
)
def command(of: str) -> int:
    from qverify.report.schema import schema_text

    click.echo(schema_text(of))
    return 0
