"""Runs the command line as a program: the script `qverify`, and `python -m qverify` for environments whose PATH lacks it."""

import atexit
import gc
import os
import sys

OBJECTS = 10_000  # after which Python looks for unused cycles; its own 700 cost a run's imports a tenth of their time


def run() -> int:
    """Runs the command line and returns its exit status. Once all handlers have run at the end of the process, it ends without
    freeing every object one by one, which takes longer than a small model; unless something waits for the end that was there
    before, such as a measurement of coverage."""
    status: list[int] = []

    def leave() -> None:
        if status:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status[0])

    if not atexit._ncallbacks():
        atexit.register(leave)  # the first is the last that runs
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])
    from qverify.cli.main import main

    status.append(main())
    return status[0]


if __name__ == "__main__":
    sys.exit(run())
