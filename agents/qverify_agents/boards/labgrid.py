"""labgrid:PLACE and labgrid:TAG=VALUE,...: a place of a labgrid coordinator, acquired for the run and reached by the
SSH address or serial line that labgrid states for it. labgrid itself runs in a process of its own (qverify_labgrid),
which releases the place when this process ends, in whatever way."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import secrets
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from qverify_agents.address import Address, add_options
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, BoardBusy, BoardUnreachable, LinkClosed, LinkError, NotOnThisHost
from qverify_agents.host_system import explain_if_not_linux
from qverify_agents.option_values import COORDINATOR
from qverify_agents.printable import one_line
from qverify_agents.process_stream import ProcessStream
from qverify_agents.this_user import cache_folder, user_name

OPTIONS: frozenset[str] = frozenset({"coordinator", "labgrid_python", "link", "resource"})
SERVICE, SERIAL = "NetworkService", "NetworkSerialPort"  # labgrid's names of resources
CLASSES = {"ssh": (SERVICE,), "serial": (SERIAL,), "": (SERVICE, SERIAL)}  # by value of the option link
DEFAULT_COORDINATOR = "127.0.0.1:20408"  # labgrid's
CLOSE_S = 15.0  # seconds for a release: the coordinator waits up to 10 s for an exporter
MAX_ANSWER_BYTES = 1 << 20  # of one line of an answer
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")


def up(address: Address, deadline: Deadline) -> tuple[Address, Callable[[], None]]:
    """Acquires the place and returns the address of its board, by ssh or serial line, and a function that releases it.
    Option wait: seconds to wait for a place that is in use. Raises BadAddress, BoardBusy, BoardUnreachable or
    NotOnThisHost."""
    place = HeldPlace(address, deadline)
    return place.address, place.close


class HeldPlace:
    """A place that is acquired at construction and released by close() or at the end of this process.

    Attributes:
        name: name of the place.
        address: address of its board, which a link can open.
        uri: the same address as a text for -b.
        coordinator: HOST:PORT of the coordinator.
        identity: HOST/USER, the name under which labgrid knows the holder.
    """

    def __init__(self, address: Address, deadline: Deadline):
        self._where = f"labgrid:{address.rest}"
        name, tags = _parse_place(address)
        self.coordinator, self._python = find_coordinator(address), find_python(address)
        wait_s = float(address.options.get("wait", "0"))
        classes = CLASSES[address.options.get("link", "")]
        self._released, self._lock = False, threading.Lock()
        self._holder = HolderProcess(self._where, self._python)
        atexit.register(self.close)  # runs before the exit handler of the process, which was registered earlier
        try:
            answer = self._holder.ask(
                Deadline(deadline.left() + wait_s, self._where),
                do="hold",
                coordinator=self.coordinator,
                identity=f"qverify-{re.sub(r'[^A-Za-z0-9_.-]', '_', user_name())}-{secrets.token_hex(6)}",
                records=str(records_folder()),
                place=name,
                tags=tags,
                classes=classes,
                wait_s=wait_s,
            )
            self.name, self.identity = one_line(str(answer.get("held"))), one_line(str(answer.get("identity")))
            self.address = _choose_address(self._where, self.name, answer.get("resources"), classes, address)
            if tags:
                label = f"place {self.name} of the labgrid at {self.coordinator}"
                self.address = replace(self.address, place=label)
            own_options = {k: v for k, v in address.options.items() if k not in OPTIONS}
            self.uri = add_options(
                f"{self.address.scheme}://{self.address.rest}", {**own_options, **self.address.options}
            )
        except BaseException:
            self.close()
            raise

    def client(self, *words: str) -> tuple[list[str], dict[str, str]]:
        """Returns the command line that runs labgrid's own client on this place with these arguments, and the
        environment variables that make it act as the holder."""
        host, _, user = self.identity.partition("/")
        program = [self._python, *_python_flags(self._python), "-m", "labgrid.remote.client"]
        return [*program, "-x", self.coordinator, "-p", self.name, *words], {"LG_HOSTNAME": host, "LG_USERNAME": user}

    def close(self) -> None:
        """Releases the place, even if the process that acquired it was killed. If the coordinator cannot be reached, a
        later run on this host releases it."""
        with self._lock:
            if self._released:
                return
            self._released = True
        atexit.unregister(self.close)
        if not self._holder.close():
            with contextlib.suppress(LinkError):
                release_stale(self.coordinator, self._python)


class HolderProcess:
    """The process that communicates with labgrid. Raises NotOnThisHost on systems other than Linux, BoardUnreachable if
    it cannot be started."""

    def __init__(self, where: str, python: str):
        if why := explain_if_not_linux(f"-b {where}", "labgrid runs on Linux"):
            raise NotOnThisHost(why)
        self._where, self._python, self._unparsed, self._has_asked = where, python, bytearray(), False
        self._stream = ProcessStream([python, *_python_flags(python), str(_program_folder())])

    def ask(self, deadline: Deadline, **request: object) -> dict[str, Any]:
        """Sends a request and returns the answer. Raises a LinkError if the answer is an error."""
        self._has_asked = True
        with contextlib.suppress(LinkClosed):  # the process ended before it had read the request; its output shows why
            self._stream.write(json.dumps(request).encode() + b"\n", deadline)
        answer = self._read_answer(deadline)
        if "error" not in answer:
            return answer
        self._has_asked = False  # no place is held
        kind, text = answer["error"], f"-b {self._where}: {str(answer.get('text'))[:2000]}"
        if kind == "missing":
            raise NotOnThisHost(
                f"-b {self._where}: {self._python} has no labgrid ({text.rpartition(': ')[2]}). "
                "Next: pip install 'qverify[labgrid]', or QVERIFY_LABGRID_PYTHON=PYTHON with a Python that has it"
            )
        if kind == "busy":
            raise BoardBusy(f"{text}; --wait SECONDS waits for it")
        raise BadAddress(text) if kind == "address" else BoardUnreachable(text)

    def _read_answer(self, deadline: Deadline) -> dict[str, Any]:
        while b"\n" not in self._unparsed:
            chunk = self._stream.read(deadline)
            if not chunk or len(self._unparsed) > MAX_ANSWER_BYTES:
                reason = self._stream.why_closed().replace(
                    "the agent", f"the process that speaks with labgrid ({self._python})"
                )
                raise BoardUnreachable(f"-b {self._where}: {reason}")
            self._unparsed += chunk
        line, _, self._unparsed = self._unparsed.partition(b"\n")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise BoardUnreachable(f"-b {self._where}: {self._python} answered {line[:80].decode(errors='replace')!r}")
        return answer

    def close(self) -> bool:
        """Makes the process release its place and ends it. Returns whether nothing is left to release."""
        answered = not self._has_asked
        try:
            with contextlib.suppress(LinkError, OSError):
                self._stream.end_of_input()
                deadline = Deadline(CLOSE_S)
                answered = answered or "released" in self._read_answer(deadline)
                self._stream.status(deadline)
        finally:
            self._stream.close()
        return answered


def release_stale(coordinator: str, python: str = "") -> list[tuple[str, str]]:
    """Releases the places that ended processes of this host still hold at a coordinator. Returns (place, holder's name)
    for each. Raises LinkError."""
    holder = HolderProcess(f"labgrid: ({coordinator})", python or find_python(Address("labgrid")))
    try:
        deadline = Deadline(60.0, f"the coordinator {coordinator}")
        identity = f"qverify-{secrets.token_hex(6)}"
        answer = holder.ask(
            deadline, do="sweep", coordinator=coordinator, identity=identity, records=str(records_folder())
        )
        return [(one_line(str(place)), one_line(str(holder_name))) for place, holder_name in answer.get("swept", [])]
    finally:
        holder.close()


def find_known_coordinators() -> list[str]:
    """Returns the coordinators at which processes of this host hold a place or left one unreleased."""
    coordinators = set()
    for path in records_folder().glob("*.json"):
        unreadable = contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError)
        with unreadable, path.open("rb") as file:
            coordinators.add(str(json.loads(file.read(4096))["coordinator"]))
    return sorted(coordinator for coordinator in coordinators if COORDINATOR.fits(coordinator))


def records_folder() -> Path:
    """Returns the folder that contains a file for each process of this host that holds a place."""
    return cache_folder() / "labgrid_places"


def find_coordinator(address: Address) -> str:
    """Returns HOST:PORT from the address, from LG_COORDINATOR, or labgrid's default. Raises BadAddress."""
    coordinator = address.options.get("coordinator") or os.environ.get("LG_COORDINATOR") or DEFAULT_COORDINATOR
    if not COORDINATOR.fits(coordinator):
        raise BadAddress(f"LG_COORDINATOR={one_line(coordinator[:80])}: wanted {COORDINATOR.words}")
    return coordinator


def find_python(address: Address) -> str:
    """Returns the command of the Python that has labgrid: from the address, from QVERIFY_LABGRID_PYTHON, or this
    one."""
    return address.options.get("labgrid_python") or os.environ.get("QVERIFY_LABGRID_PYTHON") or sys.executable


def _program_folder() -> Path:
    """Returns the folder of the program that communicates with labgrid. Raises BoardUnreachable if it is missing."""
    spec = find_spec("qverify_labgrid")
    if spec is None or not spec.submodule_search_locations:
        raise BoardUnreachable("the package qverify_labgrid is missing; install qverify again")
    return Path(next(iter(spec.submodule_search_locations)))


def _python_flags(python: str) -> list[str]:
    return [] if python == sys.executable else ["-E"]  # another Python must ignore this one's PYTHONPATH


def _parse_place(address: Address) -> tuple[str, dict[str, str]]:
    """Returns the name of the place, or "" and the tags. Raises BadAddress."""
    rest = address.rest
    if "=" not in rest:
        if not rest:
            raise BadAddress("-b labgrid: names no place; wanted labgrid:PLACE or labgrid:TAG=VALUE,TAG=VALUE")
        return rest, {}
    tags = dict(part.partition("=")[::2] for part in rest.split(","))
    wrong_tag = next(
        (key for key, value in tags.items() if not value or not re.fullmatch(r"[a-z][a-z0-9_]+", key)), None
    )
    if wrong_tag is not None:
        raise BadAddress(f"-b labgrid:{rest}: tag {wrong_tag!r}: wanted TAG=VALUE, a TAG of a-z, 0-9 and _")
    return "", tags


def _choose_address(where: str, place: str, resources: object, classes: Sequence[str], requested: Address) -> Address:
    """Returns the address for the place's resource of the first of these classes that it has. Raises BadAddress if it
    has several or none of them, BoardUnreachable if no link can open the resource."""
    available = (
        [resource for resource in resources if isinstance(resource, dict)] if isinstance(resources, list) else []
    )
    resource_name = requested.options.get("resource")
    for cls in classes:
        matches = [r for r in available if r.get("cls") == cls and resource_name in (None, r.get("name"))]
        if len(matches) > 1:
            names = ", ".join(str(r.get("name")) for r in matches)
            raise BadAddress(f"-b {where}: {place} has {len(matches)} of {cls}: {names}. Next: ?resource=NAME")
        if matches:
            return (_ssh_address if cls == SERVICE else _serial_address)(f"-b {where}: {place}", matches[0], requested)
    names = ", ".join(f"{r.get('name')} ({r.get('cls')})" for r in available) or "nothing"
    name_note = f" named {resource_name}" if resource_name is not None else ""
    raise BadAddress(f"-b {where}: {place} has no {' or '.join(classes)}{name_note}; it has {names}")


def _ssh_address(subject: str, resource: dict[str, Any], requested: Address) -> Address:
    host, port = _host_and_port(subject, resource, "address")
    user = requested.options.get("user") or resource["params"].get("username")
    if not isinstance(user, str) or not re.fullmatch(r"[A-Za-z0-9_][\w.-]*", user):
        raise BoardUnreachable(f"{subject}: its {SERVICE} has the user name {str(user)[:80]!r}, which is none")
    return Address("ssh", f"{user}@{host}:{port}")


def _serial_address(subject: str, resource: dict[str, Any], requested: Address) -> Address:
    host, port = _host_and_port(subject, resource, "host")
    params, extra = resource["params"], resource.get("extra")
    if isinstance(extra, dict) and extra.get("proxy_required"):
        raise BoardUnreachable(
            f"{subject}: its exporter is isolated, its ports are reached by labgrid's SSH proxy alone"
        )
    scheme = {"rfc2217": "rfc2217", "raw": "socket"}.get(params.get("protocol", "rfc2217"))
    speed = params.get("speed", 115200)
    if scheme is None or type(speed) is not int:
        raise BoardUnreachable(f"{subject}: its {SERIAL} is neither rfc2217 nor raw, or has no speed")
    return Address("serial", f"{scheme}://{host}:{port}", {"baud": requested.options.get("baud", str(speed))})


def _host_and_port(subject: str, resource: dict[str, Any], key: str) -> tuple[str, int]:
    """Returns the host, in brackets if it is an IPv6 address, and the port of a resource. Raises BoardUnreachable if
    they are not valid."""
    params = resource.get("params")
    if not isinstance(params, dict):
        params = resource["params"] = {}
    host, port = params.get(key), params.get("port", 22 if key == "address" else None)
    if not isinstance(host, str) or not HOST.fullmatch(host):
        raise BoardUnreachable(f"{subject}: its {resource['cls']} has the {key} {str(host)[:80]!r}, which is no host")
    if type(port) is not int or not 0 < port < 65536:
        raise BoardUnreachable(f"{subject}: its {resource['cls']} has the port {str(port)[:80]!r}, which is none")
    return (f"[{host}]" if ":" in host else host), port
