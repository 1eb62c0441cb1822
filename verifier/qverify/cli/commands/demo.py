"""Verifies the packaged digit classifier on this machine (and under QEMU where installed), then on a faulty board."""

from __future__ import annotations

import click


@click.command(help=__doc__)
def command() -> int:
    from qverify.cli.view_options import screen
    from qverify.renderers import terminal
    from qverify.session.demo import demo
    from qverify.session.job import Outcome

    def show(title: str, outcome: Outcome | None) -> None:
        click.echo(f"\n$ {title}" if outcome is not None else f"\n{title}")
        if outcome is not None:
            click.echo(terminal.render(outcome.report, outcome.finals, screen()))

    good = demo(show)
    click.echo(
        "\ndemo: every verdict is as expected (the last board is faulty on purpose)"
        if good
        else "\ndemo: a verdict is not as expected"
    )
    return 0 if good else 1
