"""The errors of the farm.

QVerifyError
 +- UsageError        exit 2
 |   +- DatabaseError          a database that cannot be used, and why
 |       +- OwnedError         another process owns it
 |       +- NewerSchemaError   a later version of qverify wrote it
 |   +- SuiteError             suite.toml has mistakes, a line each
 +- ArtifactError     exit 2   bytes that are missing from the artifact store, or are others than their digest says
 +- StoreFullError    exit 3   the artifact store has no room: what needs it waits
 +- ServerError       exit 3   a server that does not answer, or answers something else than the farm
"""

from __future__ import annotations

from qverify.errors import BlockedError, QVerifyError, UsageError


class DatabaseError(UsageError):
    pass


class OwnedError(DatabaseError):
    """holder: who owns the database, in words."""

    def __init__(self, text: str, holder: str = ""):
        super().__init__(text)
        self.holder = holder


class NewerSchemaError(DatabaseError):
    pass


class SuiteError(BlockedError):
    pass


class ArtifactError(QVerifyError):
    pass


class StoreFullError(QVerifyError):
    exit_status = 3


class ServerError(QVerifyError):
    exit_status = 3
