"""Runs the command line as `python -m qverify`, for environments whose PATH lacks the `qverify` script."""

import sys

from qverify.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
