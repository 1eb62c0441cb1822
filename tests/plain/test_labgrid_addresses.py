"""What labgrid says of a place becomes an address or one line; nothing of it is a command, a path or another option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from qverify_agents.address import Address, parse
from qverify_agents.boards.labgrid import CLASSES, HeldPlace, _choose_address, find_coordinator
from qverify_agents.connect import connect
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, BoardUnreachable, LinkError
from qverify_agents.inventory import read_broken_entries, resolve

SSH = {"name": "net", "cls": "NetworkService", "params": {"address": "10.0.0.5", "username": "root", "port": 22}}
TTY = {"name": "tty", "cls": "NetworkSerialPort", "params": {"host": "lab1", "port": 4001, "speed": 921600}}


def changed(resource: dict[str, Any], **params: object) -> dict[str, Any]:
    return {**resource, "params": {**resource["params"], **params}}


def plain(resources: object, options: str = "") -> Address:
    asked = parse(f"labgrid:desk{options}")
    return _choose_address("labgrid:desk", "desk", resources, CLASSES[asked.options.get("link", "")], asked)


@pytest.mark.parametrize(
    ("resources", "options", "wanted"),
    [
        ([TTY, SSH], "", Address("ssh", "root@10.0.0.5:22")),
        ([changed(SSH, address="fe80::1", port=2222)], "", Address("ssh", "root@[fe80::1]:2222")),
        ([SSH], "?user=ann", Address("ssh", "ann@10.0.0.5:22")),
        ([TTY, SSH], "?link=serial", Address("serial", "rfc2217://lab1:4001", {"baud": "921600"})),
        ([TTY], "?baud=9600", Address("serial", "rfc2217://lab1:4001", {"baud": "9600"})),
        ([changed(TTY, protocol="raw")], "", Address("serial", "socket://lab1:4001", {"baud": "921600"})),
        ([SSH, {**changed(SSH, port=23), "name": "b"}], "?resource=b", Address("ssh", "root@10.0.0.5:23")),
    ],
)
def test_a_resource_becomes_an_address(resources: list[Any], options: str, wanted: Address):
    assert plain(resources, options) == wanted


@pytest.mark.parametrize(
    ("resources", "options", "said"),
    [
        ([changed(SSH, address="-oProxyCommand=id")], "", "has the address '-oProxyCommand=id', which is no host"),
        ([changed(SSH, address="a b")], "", "which is no host"),
        ([changed(SSH, address="10.0.0.5%eth0")], "", "which is no host"),
        ([changed(SSH, address="x?identity=/etc/shadow")], "", "which is no host"),
        ([changed(SSH, address=None)], "", "which is no host"),
        ([changed(SSH, username="root@evil")], "", "has the user name 'root@evil', which is none"),
        ([changed(SSH, username="-l")], "", "which is none"),
        ([changed(SSH, port=70000)], "", "has the port '70000', which is none"),
        ([changed(SSH, port="22")], "", "which is none"),
        ([changed(SSH, port=True)], "", "which is none"),
        ([{**SSH, "params": "x"}], "", "which is no host"),
        ([changed(TTY, port=None)], "", "has the port 'None', which is none"),
        ([changed(TTY, protocol="spy")], "", "neither rfc2217 nor raw"),
        ([changed(TTY, speed="fast")], "", "or has no speed"),
        ([{**TTY, "extra": {"proxy_required": True}}], "", "its exporter is isolated"),
        ([SSH, {**SSH, "name": "b"}], "", "desk has 2 of NetworkService: net, b. Next: ?resource=NAME"),
        ([SSH], "?resource=x", "has no NetworkService or NetworkSerialPort named x; it has net (NetworkService)"),
        (["x", None, {}], "", "desk has no NetworkService or NetworkSerialPort; it has None (None)"),
        ("x", "", "it has nothing"),
    ],
)
def test_what_is_no_board_is_one_line(resources: object, options: str, said: str):
    with pytest.raises(BoardUnreachable) as caught:
        plain(resources, options)
    assert said in str(caught.value) and str(caught.value).startswith("-b labgrid:desk: desk")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("labgrid:", "names no place; wanted labgrid:PLACE or labgrid:TAG=VALUE"),
        ("labgrid:soc=", "tag 'soc': wanted TAG=VALUE"),
        ("labgrid:soc=j5,", "tag '': wanted TAG=VALUE"),
        ("labgrid:SOC=j5", "tag 'SOC': wanted TAG=VALUE"),
        ("labgrid:desk?coordinator=-x", "coordinator=-x: wanted HOST or HOST:PORT"),
        ("labgrid:desk?link=usb", "link=usb: wanted one of ssh, serial"),
    ],
)
def test_a_wrong_address_is_refused_before_anything_starts(address: str, said: str):
    with pytest.raises(BadAddress) as caught:
        HeldPlace(parse(address), Deadline(10))
    assert said in str(caught.value)


def test_the_coordinator_is_the_addresses_the_environments_or_labgrids_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LG_COORDINATOR", raising=False)
    assert find_coordinator(parse("labgrid:desk")) == "127.0.0.1:20408"
    monkeypatch.setenv("LG_COORDINATOR", "lab:20408")
    assert find_coordinator(parse("labgrid:desk")) == "lab:20408"
    assert find_coordinator(parse("labgrid:desk?coordinator=other")) == "other"
    monkeypatch.setenv("LG_COORDINATOR", "a b")
    with pytest.raises(BadAddress, match="LG_COORDINATOR=a b: wanted HOST or HOST:PORT"):
        find_coordinator(parse("labgrid:desk"))


def test_tags_of_labgrid_are_not_tags_of_the_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    inventory = tmp_path / "boards.toml"
    inventory.write_text('[boards.desk]\nuri = "labgrid:soc=j5,fw=1.2"\ntags = { soc = "x3" }\n')
    monkeypatch.setenv("QVERIFY_BOARDS", str(inventory))
    assert resolve("labgrid:soc=j5") == ["labgrid:soc=j5"]
    assert resolve("soc=x3") == ["labgrid:soc=j5,fw=1.2"]
    assert resolve("finals:soc=x3") == ["finals:soc=x3"]


def test_a_clone_does_not_choose_the_program_that_speaks_with_labgrid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("QVERIFY_BOARDS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "boards.toml").write_text('[boards.desk]\nuri = "labgrid:desk?labgrid_python=./evil"\n')
    assert "labgrid_python would run commands that this folder chooses" in str(read_broken_entries()["desk"])
    with pytest.raises(LinkError, match="labgrid_python would run commands that this folder chooses"):
        resolve("desk")


def test_a_wrapper_finds_a_board_of_the_inventory_by_its_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    inventory = tmp_path / "boards.toml"
    inventory.write_text('[boards.here]\nuri = "local"\ntags = { soc = "x3" }\n')
    monkeypatch.setenv("QVERIFY_BOARDS", str(inventory))
    with connect("finals:soc=x3", 30) as agent:
        assert "per_node" not in agent.capabilities
