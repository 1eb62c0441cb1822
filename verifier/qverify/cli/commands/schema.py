"""Prints the JSON Schema (draft 2020-12) of the report that --json writes."""

from __future__ import annotations

import click


@click.command(help=__doc__)
def command() -> int:
    import json

    from qverify.report.schema import report_schema

    click.echo(json.dumps(report_schema(), indent=2, sort_keys=True))
    return 0
