"""The commands of `qverify boards` for places of labgrid: show a console, release the places of killed processes."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from qverify.cli.say_line import say

if TYPE_CHECKING:
    from qverify_agents.address import Address

CONNECT_S = 30.0


def follow_console(address: Address, wait: str) -> int:
    """Acquires a place and prints the output of its console until interrupted. wait: seconds to wait for the place."""
    from qverify_agents.boards.labgrid import HeldPlace
    from qverify_agents.deadline import Deadline
    from qverify_agents.links.serial_line import SerialPort
    from qverify_agents.option_values import check_option_values

    options = {"wait": wait, **address.options, "link": "serial"}
    check_option_values(f"-b labgrid:{address.rest}", options)
    where = replace(address, options=options)
    with contextlib.closing(HeldPlace(where, Deadline(CONNECT_S, f"labgrid:{address.rest}"))) as place:
        click.echo(f"{place.name}: {place.address.rest}; Ctrl-C ends it", err=True)
        with contextlib.closing(
            SerialPort(replace(place.address, options={**options, **place.address.options}))
        ) as port:
            while True:
                click.echo(port.read(0.5), nl=False)


@click.command("release-stale", help="Release the places of labgrid that killed runs on this host still hold")
def release_stale() -> int:
    from qverify_agents.boards import labgrid
    from qverify_agents.errors import LinkError

    worst, released = 0, 0
    for coordinator in labgrid.find_known_coordinators():
        try:
            for place, holder in labgrid.release_stale(coordinator):
                released += 1
                say(f"released {place} at {coordinator}, held by {holder}, which has ended")
        except LinkError as error:
            worst = max(worst, error.exit_status)
            say(f"FAILED  {error}")
    if not released and not worst:
        say("nothing is held by a run that has ended")
    return worst
