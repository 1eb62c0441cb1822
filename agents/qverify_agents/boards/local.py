"""local: a runtime of this machine as a subprocess: that of qverify, one built by the user, onnxruntime or LiteRT."""

from __future__ import annotations

import os
from pathlib import Path

from qverify_agents.address import Address
from qverify_agents.binaries import host_architecture, runtime_path
from qverify_agents.errors import BadAddress, BoardUnreachable, NotOnThisHost
from qverify_agents.host_system import explain_if_not_linux
from qverify_agents.worker import OPTIONS as WORKER_OPTIONS
from qverify_agents.worker import is_worker, local_python, runtime_arguments, write_worker_file

OPTIONS: frozenset[str] = frozenset({"runtime"}) | WORKER_OPTIONS


def plainer(address: Address) -> Address:
    """Returns the address that starts the runtime. Option `runtime`: path of a qvrt that was built from board_runtime/
    with changes; or onnxruntime or litert, run by this Python or that of option `python`. Raises BoardUnreachable if
    there is no such program, NotOnThisHost for the other runtimes on systems other than Linux, BadAddress for a path
    together with a fault."""
    if is_worker(address):
        if why := explain_if_not_linux("-b local", "qverify's worker runs on Linux"):
            raise NotOnThisHost(why)
        return Address(
            "exec", argv=(*local_python(address), "-I", str(write_worker_file()), *runtime_arguments(address))
        )
    faulty = "fault" in address.options
    why = explain_if_not_linux("-b local", "the runtime that comes with qverify runs on Linux")
    if why and "runtime" not in address.options:
        raise NotOnThisHost(why)
    path = Path() if why else runtime_path(host_architecture(), faulty)
    if faulty and "runtime" in address.options:
        raise BadAddress(
            "-b faulty:local with runtime=: a fault is planted in the runtime that comes with qverify only"
        )
    if "runtime" in address.options:
        path = Path(address.options["runtime"]).absolute()
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise BoardUnreachable(f"runtime={path}: no program there. Next: name a qvrt built for this machine")
    environment = {"QVRT_FAULT": address.options["fault"]} if faulty else {}
    return Address("exec", argv=(str(path),), environment=environment)
