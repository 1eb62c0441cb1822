"""Stores the token of a farm's server for --server, in a file that only its owner may read."""

from __future__ import annotations

import os
import sys

import click
from qverify.cli.say_line import say


@click.command(help=__doc__)
@click.argument("url")
@click.option("--token", metavar="TOKEN", help="instead of asking for it (others see it in the list of processes)")
@click.option("--forget", is_flag=True, help="remove the token of this server")
def command(url: str, token: str | None, forget: bool) -> int:
    from qverify_farm.client.http import FarmServer, server_url
    from qverify_farm.client.tokens import save_token, tokens_path

    address, path = server_url(url), tokens_path()
    if forget:
        save_token(path, address, None)
        say(f"{address}: its token is forgotten")
        return 0
    secret = token or os.environ.get("QVERIFY_TOKEN") or _read_token(address)
    with FarmServer(address, secret) as server:
        who = server.get("/api/v1/whoami")
    save_token(path, address, secret)
    name, role = str(who.get("name", ""))[:64], str(who.get("role", ""))[:16]
    say(f"{address}: logged in as {name} ({role}); the token is in {path}")
    return 0


def _read_token(address: str) -> str:
    """Returns the token from standard input; on a terminal it is not shown while it is typed."""
    if sys.stdin.isatty():
        typed = str(click.prompt(f"token for {address}", hide_input=True))
    else:
        typed = sys.stdin.readline(1000)
    if not typed.strip():
        raise click.UsageError("no token: type it, pipe it, or set QVERIFY_TOKEN")
    return typed.strip()
