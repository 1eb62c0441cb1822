"""A lock for reading the headers of .npy files."""

from __future__ import annotations

import threading

HEADER_LOCK = threading.Lock()  # numpy parses headers with Python's parser, which fails in two threads in Python 3.11
