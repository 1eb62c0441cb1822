"""supervise.sh ends its own watchers, also one that loses the signal: dash forgets a signal that reaches a subshell while it
is being forked."""

from __future__ import annotations

import subprocess

import pytest
from qverify_agents.command_board import SUPERVISE

FUNCTIONS = SUPERVISE.read_text().partition("\nwhat=$1")[0]
WATCHER = "(trap 'lost=$((lost + 1)); [ $lost -le LOST ] || exit' TERM; lost=0; for i in $(seq 2000); do sleep 0.01; done) & {name}=$!\n"


@pytest.mark.parametrize("lost", [0, 1, 3, 1000])
def test_a_watcher_that_loses_signals_ends(lost: int) -> None:
    watchers = "".join(WATCHER.replace("LOST", str(lost)).format(name=name) for name in ("late", "gone"))
    script = f"{FUNCTIONS}\n{watchers}sleep 0.2; end_watchers; wait $late $gone; echo ended"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "ended\n"
