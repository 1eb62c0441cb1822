"""Checks this host: onnxruntime's kernels, the processor, the shipped runtimes, emulators, optional libraries."""

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
    click.echo(f"ok     processor: {_describe_processor()}")
    if replaced:
        click.echo("       onnxruntime's own products of uint8 by int8 saturate here: a board")
        click.echo("       that runs onnxruntime on such a processor is FAILED where they do;")
        click.echo("       the reference computes exact products")
    else:
        click.echo("       onnxruntime's products of uint8 by int8 are exact here")
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
    for line in _describe_extras():
        click.echo(line)
    return 0 if good else 1


def _describe_processor() -> str:
    """Returns the processor with its features that change results or speed."""
    import platform

    flags = set[str]()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            flags = set(next((line for line in file if line.startswith(("flags", "Features"))), "").split())
    except OSError:
        pass  # another system: the machine's name is all that is known
    named = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_vnni": "VNNI", "avx_vnni": "VNNI", "asimddp": "dot products"}
    has = ", ".join(dict.fromkeys(name for flag, name in named.items() if flag in flags))
    return f"{platform.machine()} with {has}" if has else platform.machine()


def _describe_extras() -> list[str]:
    """Returns a line for each extra: installed, or the command that installs it."""
    from importlib.util import find_spec

    from qverify.extras import EXTRAS

    lacking = dict[str, list[str]]()
    for module, (library, extra) in EXTRAS.items():
        lacking.setdefault(extra, []).extend([] if find_spec(module) else [library])
    return [
        f"none   extra {extra}: {', '.join(libraries)} not installed; pip install 'qverify[{extra}]'"
        if libraries
        else f"ok     extra {extra}"
        for extra, libraries in lacking.items()
    ]
