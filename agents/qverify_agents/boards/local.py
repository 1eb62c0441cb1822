"""local: the runtime of this machine as a subprocess."""

from __future__ import annotations

from qverify_agents.address import Address
from qverify_agents.binaries import host_architecture, runtime_path

OPTIONS: frozenset[str] = frozenset()


def plainer(address: Address) -> Address:
    """Returns the address that starts the runtime."""
    faulty = "fault" in address.options
    path = runtime_path(host_architecture(), faulty)
    environment = {"QVRT_FAULT": address.options["fault"]} if faulty else {}
    return Address("exec", argv=(str(path),), environment=environment)
