"""The module of each kind of board and of each link, by scheme. A module is imported only when it is needed."""

from __future__ import annotations

BOARDS = {
    "local": "qverify_agents.boards.local",
    "qemu-user": "qverify_agents.boards.qemu_user",
    "qemu": "qverify_agents.boards.qemu_system",
    "qemu-mcu": "qverify_agents.boards.qemu_mcu",
    "docker": "qverify_agents.boards.container",
    "podman": "qverify_agents.boards.container",
    "labgrid": "qverify_agents.boards.labgrid",
    "faulty": "qverify_agents.boards.faulty_runtime",
    "finals": "qverify_agents.boards.finals_only",
}
LINKS = {
    "exec": "qverify_agents.links.exec_pipe",
    "ssh": "qverify_agents.links.ssh",
    "shell": "qverify_agents.links.command_line",
    "serial": "qverify_agents.links.serial_line",
}
