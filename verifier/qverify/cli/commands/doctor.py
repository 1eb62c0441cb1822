"""Checks this host: onnxruntime's kernels, the shipped runtimes, emulators."""

from __future__ import annotations

import click


@click.command(help=__doc__)
def command() -> int:
    from qverify_agents.binaries import MACHINES, runtime_path
    from qverify_agents.connect import connect
    from qverify_agents.emulation.user_mode import find_emulator
    from qverify_agents.errors import LinkError, NotOnThisHost
    from qverify_agents.printable import one_line

    from qverify.onnx_model.canary import MIXED, run_canaries
    from qverify.plural import count

    result = run_canaries(use_cache=False)
    failing = [name for name in result["checked"] if name in result["failing"]]
    replaced = [name for name in failing if name.endswith(MIXED)]
    good = failing == replaced
    for name in failing:
        if name not in replaced:
            click.echo(f"FAILED {name} on {result['engine']}: its values are not the known ones")
    right = len(result["checked"]) - len(failing)
    click.echo(
        f"{'ok' if good else 'FAILED':7s}{right} of {count(len(result['checked']), 'kernel')} of {result['engine']} compute known values"
    )
    if replaced:
        click.echo("ok     the others: this processor's products of uint8 by int8 saturate;")
        click.echo("       the reference computes them as products of uint8, which are exact")
    for arch in sorted(set(MACHINES.values())):
        try:
            click.echo(f"ok     runtime {runtime_path(arch).name}; emulator {find_emulator(arch) or 'none'}")
        except LinkError as error:
            click.echo(f"none   {error}")
    try:
        agent = connect("local", 10)
        facts = (agent.hello.get(name) for name in ("version", "arch", "system", "endian"))
        click.echo(f"ok     local board: qvrt {', '.join(one_line(str(fact)) for fact in facts)} endian")
        agent.close()
    except NotOnThisHost as error:
        click.echo(f"none   local board: {error}")
    except LinkError as error:
        good = False
        click.echo(f"FAILED local board: {error}")
    return 0 if good else 1
