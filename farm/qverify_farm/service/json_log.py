"""The service's log: one JSON object per line, on standard error."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TextIO

LOGGER = logging.getLogger("qverify.service")
REQUEST_LOGGER = logging.getLogger("qverify.service.requests")
MAX_LENGTH = 8000


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object with time, level, logger, what, and the fields of `extra={"fields": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        timestamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {
            "time": timestamp,
            "level": record.levelname.lower(),
            "logger": record.name,
            "what": record.getMessage()[:MAX_LENGTH],
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)[-MAX_LENGTH:]
        return json.dumps(line, default=str)


def log(what: str, level: int = logging.INFO, logger: logging.Logger = LOGGER, **fields: object) -> None:
    """Writes a line to the log."""
    if logger.isEnabledFor(level):
        logger.log(level, what, extra={"fields": fields})


def start_log(stream: TextIO | None = None, requests: bool = True) -> None:
    """Sends the service's log and the warnings of its libraries to a stream (None: standard error). requests: whether to log
    each request."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    logging.getLogger("uvicorn.access").disabled = True
    for name, level in (("qverify", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = [handler], False
        logger.setLevel(level)
    REQUEST_LOGGER.setLevel(logging.INFO if requests else logging.WARNING)
