"""The service's log: one JSON object a line, on standard error."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TextIO

LOGGER = logging.getLogger("qverify.service")
REQUESTS = logging.getLogger("qverify.service.requests")
MOST = 8000


class JsonLines(logging.Formatter):
    """Fields given as `extra={"fields": {...}}` stand beside time, level, logger and what."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {
            "time": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "what": record.getMessage()[:MOST],
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)[-MOST:]
        return json.dumps(line, default=str)


def log(what: str, level: int = logging.INFO, logger: logging.Logger = LOGGER, **fields: object) -> None:
    """Writes a line of the log."""
    if logger.isEnabledFor(level):
        logger.log(level, what, extra={"fields": fields})


def start_log(stream: TextIO | None = None, requests: bool = True) -> None:
    """Sends the service's log and what its libraries warn of to a stream [default: standard error]. requests: a line for
    each."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    logging.getLogger("uvicorn.access").disabled = True
    for name, level in (("qverify", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = [handler], False
        logger.setLevel(level)
    REQUESTS.setLevel(logging.INFO if requests else logging.WARNING)
