"""labgrid:PLACE, labgrid:TAG=VALUE,...: a place of a labgrid coordinator, acquired for the run, as the address by ssh or
serial line that labgrid names. labgrid itself runs in a process of its own (qverify_labgrid), which releases the place
when this process ends, however it ends."""

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
CLASSES = {"ssh": (SERVICE,), "serial": (SERIAL,), "": (SERVICE, SERIAL)}  # by the option link
DEFAULT_COORDINATOR = "127.0.0.1:20408"  # labgrid's
CLOSE_S = 15.0  # to release: the coordinator waits up to 10 s for an exporter
MOST_ANSWER = 1 << 20  # bytes of one line
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")


def up(address: Address, deadline: Deadline) -> tuple[Address, Callable[[], None]]:
    """Acquires the place; returns its address by ssh or serial line, and the function that releases it. Option wait: how
    long to wait for a place that is in use. Raises BadAddress, BoardBusy, BoardUnreachable, NotOnThisHost."""
    place = HeldPlace(address, deadline)
    return place.address, place.close


class HeldPlace:
    """A place that is held from construction to close(), or to the end of this process. name: of the place. address: of
    its board, as a link opens it. uri: the same, for -b. identity: HOST/USER, the holder's name in labgrid."""

    def __init__(self, address: Address, deadline: Deadline):
        self._where = f"labgrid:{address.rest}"
        name, tags = _wanted(address)
        self.coordinator, self._python = coordinator_of(address), python_of(address)
        wait_s = float(address.options.get("wait", "0"))
        classes = CLASSES[address.options.get("link", "")]
        self._released, self._lock = False, threading.Lock()
        self._holder = HolderProcess(self._where, self._python)
        atexit.register(self.close)  # after the process' own end at exit was registered, so before it
        try:
            held = self._holder.ask(
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
            self.name, self.identity = one_line(str(held.get("held"))), one_line(str(held.get("identity")))
            self.address = _address(self._where, self.name, held.get("resources"), classes, address)
            if tags:
                taken = f"place {self.name} of the labgrid at {self.coordinator}"
                self.address = replace(self.address, place=taken)
            own_options = {k: v for k, v in address.options.items() if k not in OPTIONS}
            self.uri = add_options(
                f"{self.address.scheme}://{self.address.rest}", {**own_options, **self.address.options}
            )
        except BaseException:
            self.close()
            raise

    def client(self, *words: str) -> tuple[list[str], dict[str, str]]:
        """Returns the command line of labgrid's own client for this place, and the environment by which it is the
        holder."""
        host, _, user = self.identity.partition("/")
        program = [self._python, *_flags(self._python), "-m", "labgrid.remote.client"]
        return [*program, "-x", self.coordinator, "-p", self.name, *words], {"LG_HOSTNAME": host, "LG_USERNAME": user}

    def close(self) -> None:
        """Releases the place. What a killed holder left is released, too; what an unreachable coordinator still has is
        released by a later start on this host."""
        with self._lock:
            if self._released:
                return
            self._released = True
        atexit.unregister(self.close)
        if not self._holder.close():
            with contextlib.suppress(LinkError):
                release_stale(self.coordinator, self._python)


class HolderProcess:
    """The process that speaks with labgrid. Raises NotOnThisHost elsewhere than on Linux, BoardUnreachable where it cannot
    be started."""

    def __init__(self, where: str, python: str):
        if why := explain_if_not_linux(f"-b {where}", "labgrid runs on Linux"):
            raise NotOnThisHost(why)
        self._where, self._python, self._rest, self._asked = where, python, bytearray(), False
        self._stream = ProcessStream([python, *_flags(python), str(_program())])

    def ask(self, deadline: Deadline, **request: object) -> dict[str, Any]:
        """Returns the answer to a request. Raises the LinkError that it stands for."""
        self._asked = True
        with contextlib.suppress(LinkClosed):  # it ended before it read that; its output says why
            self._stream.write(json.dumps(request).encode() + b"\n", deadline)
        answer = self._answer(deadline)
        if "error" not in answer:
            return answer
        self._asked = False  # nothing is held
        kind, text = answer["error"], f"-b {self._where}: {str(answer.get('text'))[:2000]}"
        if kind == "missing":
            raise NotOnThisHost(
                f"-b {self._where}: {self._python} has no labgrid ({text.rpartition(': ')[2]}). "
                "Next: pip install 'qverify[labgrid]', or QVERIFY_LABGRID_PYTHON=PYTHON with a Python that has it"
            )
        if kind == "busy":
            raise BoardBusy(f"{text}; --wait SECONDS waits for it")
        raise BadAddress(text) if kind == "address" else BoardUnreachable(text)

    def _answer(self, deadline: Deadline) -> dict[str, Any]:
        while b"\n" not in self._rest:
            chunk = self._stream.read(deadline)
            if not chunk or len(self._rest) > MOST_ANSWER:
                said = self._stream.why_closed().replace(
                    "the agent", f"the process that speaks with labgrid ({self._python})"
                )
                raise BoardUnreachable(f"-b {self._where}: {said}")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise BoardUnreachable(f"-b {self._where}: {self._python} answered {line[:80].decode(errors='replace')!r}")
        return answer

    def close(self) -> bool:
        """Lets it release what it holds, and ends it. Returns whether nothing is left to release."""
        answered = not self._asked
        try:
            with contextlib.suppress(LinkError, OSError):
                self._stream.end_of_input()
                deadline = Deadline(CLOSE_S)
                answered = answered or "released" in self._answer(deadline)
                self._stream.status(deadline)
        finally:
            self._stream.close()
        return answered


def release_stale(coordinator: str, python: str = "") -> list[tuple[str, str]]:
    """Releases what processes of this host that have ended still hold at a coordinator. Returns places and the names of
    their holders. Raises LinkError."""
    holder = HolderProcess(f"labgrid: ({coordinator})", python or python_of(Address("labgrid")))
    try:
        deadline = Deadline(60.0, f"the coordinator {coordinator}")
        identity = f"qverify-{secrets.token_hex(6)}"
        answer = holder.ask(
            deadline, do="sweep", coordinator=coordinator, identity=identity, records=str(records_folder())
        )
        return [(one_line(str(place)), one_line(str(who))) for place, who in answer.get("swept", [])]
    finally:
        holder.close()


def known_coordinators() -> list[str]:
    """Returns the coordinators at which processes of this host hold, or held, a place that was not released."""
    found = set()
    for path in records_folder().glob("*.json"):
        wrong = contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError)
        with wrong, path.open("rb") as file:
            found.add(str(json.loads(file.read(4096))["coordinator"]))
    return sorted(one for one in found if COORDINATOR.fits(one))


def records_folder() -> Path:
    """Returns the folder with one file for each process of this host that holds a place."""
    return cache_folder() / "labgrid_places"


def coordinator_of(address: Address) -> str:
    """Returns HOST:PORT of the address, of LG_COORDINATOR, or labgrid's default. Raises BadAddress."""
    found = address.options.get("coordinator") or os.environ.get("LG_COORDINATOR") or DEFAULT_COORDINATOR
    if not COORDINATOR.fits(found):
        raise BadAddress(f"LG_COORDINATOR={one_line(found[:80])}: wanted {COORDINATOR.words}")
    return found


def python_of(address: Address) -> str:
    """Returns the Python that has labgrid: the address's, that of QVERIFY_LABGRID_PYTHON, or this one."""
    return address.options.get("labgrid_python") or os.environ.get("QVERIFY_LABGRID_PYTHON") or sys.executable


def _program() -> Path:
    """Returns the folder of the program that speaks with labgrid. Raises BoardUnreachable."""
    spec = find_spec("qverify_labgrid")
    if spec is None or not spec.submodule_search_locations:
        raise BoardUnreachable("the package qverify_labgrid is missing; install qverify again")
    return Path(next(iter(spec.submodule_search_locations)))


def _flags(python: str) -> list[str]:
    return [] if python == sys.executable else ["-E"]  # PYTHONPATH is this Python's


def _wanted(address: Address) -> tuple[str, dict[str, str]]:
    """Returns the name of the place, or the tags. Raises BadAddress."""
    rest = address.rest
    if "=" not in rest:
        if not rest:
            raise BadAddress("-b labgrid: names no place; wanted labgrid:PLACE or labgrid:TAG=VALUE,TAG=VALUE")
        return rest, {}
    tags = dict(part.partition("=")[::2] for part in rest.split(","))
    wrong = next((key for key, value in tags.items() if not value or not re.fullmatch(r"[a-z][a-z0-9_]+", key)), None)
    if wrong is not None:
        raise BadAddress(f"-b labgrid:{rest}: tag {wrong!r}: wanted TAG=VALUE, a TAG of a-z, 0-9 and _")
    return "", tags


def _address(where: str, place: str, resources: object, classes: Sequence[str], asked: Address) -> Address:
    """Returns the address of the first of these classes that the place has. Raises BadAddress where that is not clear,
    BoardUnreachable where the resource is not one that a link can open."""
    there = [one for one in resources if isinstance(one, dict)] if isinstance(resources, list) else []
    wanted = asked.options.get("resource")
    for cls in classes:
        fitting = [r for r in there if r.get("cls") == cls and wanted in (None, r.get("name"))]
        if len(fitting) > 1:
            names = ", ".join(str(r.get("name")) for r in fitting)
            raise BadAddress(f"-b {where}: {place} has {len(fitting)} of {cls}: {names}. Next: ?resource=NAME")
        if fitting:
            return (_ssh if cls == SERVICE else _serial)(f"-b {where}: {place}", fitting[0], asked)
    names = ", ".join(f"{r.get('name')} ({r.get('cls')})" for r in there) or "nothing"
    named = f" named {wanted}" if wanted is not None else ""
    raise BadAddress(f"-b {where}: {place} has no {' or '.join(classes)}{named}; it has {names}")


def _ssh(who: str, resource: dict[str, Any], asked: Address) -> Address:
    host, port = _host_and_port(who, resource, "address")
    user = asked.options.get("user") or resource["params"].get("username")
    if not isinstance(user, str) or not re.fullmatch(r"[A-Za-z0-9_][\w.-]*", user):
        raise BoardUnreachable(f"{who}: its {SERVICE} has the user name {str(user)[:80]!r}, which is none")
    return Address("ssh", f"{user}@{host}:{port}")


def _serial(who: str, resource: dict[str, Any], asked: Address) -> Address:
    host, port = _host_and_port(who, resource, "host")
    params, extra = resource["params"], resource.get("extra")
    if isinstance(extra, dict) and extra.get("proxy_required"):
        raise BoardUnreachable(f"{who}: its exporter is isolated, its ports are reached by labgrid's SSH proxy alone")
    scheme = {"rfc2217": "rfc2217", "raw": "socket"}.get(params.get("protocol", "rfc2217"))
    speed = params.get("speed", 115200)
    if scheme is None or type(speed) is not int:
        raise BoardUnreachable(f"{who}: its {SERIAL} is neither rfc2217 nor raw, or has no speed")
    return Address("serial", f"{scheme}://{host}:{port}", {"baud": asked.options.get("baud", str(speed))})


def _host_and_port(who: str, resource: dict[str, Any], key: str) -> tuple[str, int]:
    """Returns host, in brackets if it is an IPv6 address, and port. Raises BoardUnreachable where they are none."""
    params = resource.get("params")
    if not isinstance(params, dict):
        params = resource["params"] = {}
    host, port = params.get(key), params.get("port", 22 if key == "address" else None)
    if not isinstance(host, str) or not HOST.fullmatch(host):
        raise BoardUnreachable(f"{who}: its {resource['cls']} has the {key} {str(host)[:80]!r}, which is no host")
    if type(port) is not int or not 0 < port < 65536:
        raise BoardUnreachable(f"{who}: its {resource['cls']} has the port {str(port)[:80]!r}, which is none")
    return (f"[{host}]" if ":" in host else host), port
