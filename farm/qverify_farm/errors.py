"""The errors of the farm.

QVerifyError
 +- UsageError        exit 2
 |   +- DatabaseError          the database cannot be used
 |       +- OwnedError         another process owns the database
 |       +- NewerSchemaError   a later version of qverify wrote the database
 |   +- SuiteError             suite.toml has mistakes; the message has a line for each
 +- ArtifactError     exit 2   an artifact is missing from the store, or its bytes do not match its digest
 +- StoreUnavailableError  exit 3   the artifact store cannot be used at present; work that needs it waits
 |   +- StoreFullError             it has no room
 +- ServerError       exit 3   a server does not answer, or its answer is not that of a farm
"""

from __future__ import annotations

from qverify.errors import BlockedError, QVerifyError, UsageError


class DatabaseError(UsageError):
    pass


class OwnedError(DatabaseError):
    """Another process owns the database. `holder` describes that process."""

    def __init__(self, text: str, holder: str = ""):
        super().__init__(text)
        self.holder = holder


class NewerSchemaError(DatabaseError):
    pass


class SuiteError(BlockedError):
    pass


class ArtifactError(QVerifyError):
    pass


class StoreUnavailableError(QVerifyError):
    exit_status = 3


class StoreFullError(StoreUnavailableError):
    pass


class ServerError(QVerifyError):
    exit_status = 3
