"""Shows how qverify tests the accelerator of a chip, and not only its processor: what is the reference, how to make the
dump, which command compares it, what a FAILED means, what was tried on real tools. CHIP: a chip, maker, tool or kind of
file (rk3588, TDA4VM, rknn, .hef); all makers without it."""

from __future__ import annotations

import click

from qverify.cli.view_options import screen


@click.command(help=__doc__)
@click.argument("chip", required=False)
def command(chip: str | None) -> int:
    from qverify.chips import find_page, read_pages

    if chip is not None:
        click.echo(find_page(chip).text.rstrip())
        return 0
    formatter = click.HelpFormatter(width=screen().columns)
    formatter.write_dl([(page.name, f"{page.rows['chips']}. Tried: {page.rows['tried']}") for page in read_pages()])
    click.echo(formatter.getvalue())
    click.echo("qverify chips NAME tells how its accelerator is tested; NAME is a maker, chip, tool or kind of file")
    return 0
