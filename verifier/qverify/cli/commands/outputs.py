"""The command `outputs diff`: compares what the device's application made of the network's outputs with what it should be."""

from __future__ import annotations

import click

from qverify.cli.outputs_diff import diff


@click.group(help=__doc__)
def command() -> None:
    pass


command.add_command(diff)
