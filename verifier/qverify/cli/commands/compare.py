"""Compares two folders of .npy files (as qverify infer writes) or two .npz files: every tensor, by name."""

from __future__ import annotations

import click


@click.command(help=__doc__)
@click.argument("a", type=click.Path(exists=True))
@click.argument("b", type=click.Path(exists=True))
@click.option("-c", "--compare-digits", "digits", type=click.IntRange(0, 15), default=5, show_default=True)
@click.option(
    "--rule", type=click.Choice(["half", "round", "truncate", "numpy", "exact"]), default="half", show_default=True
)
@click.option("--nan-equal", is_flag=True)
@click.option("--json", "json_path", metavar="FILE")
def command(a: str, b: str, digits: int, rule: str, nan_equal: bool, json_path: str | None) -> int:
    from qverify.renderers import json_file, terminal
    from qverify.report.document import EXIT
    from qverify.session.replay import compare_dumps

    report = compare_dumps(a, b, digits, rule, nan_equal)
    if json_path != "-":
        click.echo(terminal.render(report, [], True))
    if json_path:
        json_file.write(report, json_path)
    return EXIT[report.verdict]
