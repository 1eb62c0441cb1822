"""Serves the farm: an HTTP API, web pages and the boards that this host reaches, for everyone with a token. Until the first
token is made, it listens on this host only, and everyone on this host may do everything."""

from __future__ import annotations

import click

from qverify_farm.cli.suite_options import artifacts_option, database_option

ROLES = ("viewer", "submitter", "admin")


@click.group(help=__doc__, invoke_without_command=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True, help="0: any that is free")
@click.option("--host", default="127.0.0.1", show_default=True, help="another one needs a token, and TLS or a proxy")
@database_option
@artifacts_option
@click.option(
    "--workers", metavar="ADDRESS", help="address of the scheduler of `qverify worker`  [default: boards of this host]"
)
@click.option("--workers-tls-ca", metavar="FILE", help="authority's certificate, for --workers tls://")
@click.option("--workers-tls-cert", metavar="FILE", help="certificate, for --workers tls://")
@click.option("--workers-tls-key", metavar="FILE", help="private key, for --workers tls://")
@click.option("-b", "--board", "addresses", multiple=True, help="a board that is not in boards.toml; may be repeated")
@click.option("--tls-cert", metavar="FILE", help="certificate of this service, with those up to its authority")
@click.option("--tls-key", metavar="FILE", help="its private key")
@click.option("--behind-proxy", is_flag=True, help="a proxy on this host ends TLS, and everybody needs a token")
@click.option("--allow-private-webhooks", is_flag=True, help="webhooks may go to this host and its network")
@click.option("--max-upload", type=click.IntRange(1), default=8192, show_default=True, help="largest upload in MB")
@click.option(
    "--rate", type=click.FloatRange(0.1), default=200.0, show_default=True, help="requests per second with one token"
)
@click.option("--triages", type=click.IntRange(0, 64), default=1, show_default=True, help="how many run at a time")
@click.option("--stop-after", type=click.FloatRange(1), default=20.0, show_default=True, help="seconds to end cleanly")
@click.option("--quiet", is_flag=True, help="do not log each request")
@click.pass_context
def command(context: click.Context, /, **options: object) -> int:
    if context.invoked_subcommand is not None:
        context.obj = options
        return 0
    from qverify_farm.cli.serve_work import ServeOptions, serve

    return serve(ServeOptions(**options))  # type: ignore[arg-type]


@command.group()
def token() -> None:
    """Make, list and revoke tokens, the first one in particular. While the service runs, administrators use the API."""


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True)
@click.option("--project", help="project of the token  [default: all, for an admin]")
@click.option("--days", type=click.FloatRange(0.001, 3650), help="until it expires  [default: never]")
@database_option
def create(name: str, role: str, project: str | None, days: float | None, database: str) -> int:
    """Make a token and print it once. The service must be down. A missing project is made, too."""
    from qverify_farm.cli.serve_tokens import make_token

    return make_token(database, name, role, project, days)


@token.command("list")
@database_option
def list_(database: str) -> int:
    """Show the tokens, without their secrets."""
    from qverify_farm.cli.serve_tokens import show_tokens

    return show_tokens(database)


@token.command()
@click.argument("name")
@database_option
def revoke(name: str, database: str) -> int:
    """Revoke a token, by its name or id. The service must be down."""
    from qverify_farm.cli.serve_tokens import end_token

    return end_token(database, name)


@command.command()
@click.argument("file")
@database_option
@artifacts_option
@click.option("--no-artifacts", is_flag=True, help="rows only, without the bytes of files and reports")
def backup(file: str, database: str, artifacts: str, no_artifacts: bool) -> int:
    """Write everything into FILE (.tar), also while the service runs. Exit status 1 if bytes of artifacts are missing."""
    from qverify_farm.cli.serve_backup import back_up

    return back_up(file, database, artifacts, not no_artifacts)


@command.command()
@click.argument("file")
@database_option
@artifacts_option
def restore(file: str, database: str, artifacts: str) -> int:
    """Read FILE into a new database. The service must be down. Exit status 1 if bytes of artifacts are missing."""
    from qverify_farm.cli.serve_backup import restore as restore_backup

    return restore_backup(file, database, artifacts)
