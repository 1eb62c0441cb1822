"""Reports of earlier runs: the difference of two, and the schemas of the documents."""

from __future__ import annotations

import click

from qverify.cli.commands.schema import command as schema
from qverify.cli.report_diff import diff


@click.group(help=__doc__)
def command() -> None:
    pass


command.add_command(diff)
command.add_command(schema, "schema")
