"""qverify serve backup and restore: prints what a backup contains and what is missing in it."""

from __future__ import annotations

from qverify.cli.say_line import say
from qverify.errors import UsageError
from qverify.plural import count

from qverify_farm.service.backup import Counts, read_backup, write_backup
from qverify_farm.store.artifacts import open_artifacts
from qverify_farm.store.database import missing_file, open_database
from qverify_farm.store.database_artifacts import default_artifacts, open_database_artifacts


def back_up(file: str, database: str, artifacts: str, with_artifacts: bool) -> int:
    """Writes a backup. Returns 0, or 1 if bytes of artifacts are missing. Raises UsageError if the database does not exist,
    since otherwise a new, empty one would be backed up."""
    if missing := missing_file(database):
        raise UsageError(
            f"{missing}: no such file; wanted the service's database. Next: --database, or QVERIFY_DATABASE, as the "
            "service has it"
        )
    opened = open_database(database)
    try:
        store = open_artifacts(artifacts or default_artifacts(opened)) if with_artifacts else None
        counts = write_backup(opened, store, file)
    finally:
        opened.close()
    return _report(file, counts, store.url if store is not None else "")


def restore(file: str, database: str, artifacts: str) -> int:
    """Restores a backup. Returns 0, or 1 if bytes of artifacts are neither in the backup nor in the store."""
    opened = open_database(database, "qverify serve restore")
    try:
        store = open_artifacts(artifacts or default_artifacts(opened))
        counts = read_backup(opened, store, file)
        open_database_artifacts(opened, artifacts)
    finally:
        opened.close()
    return _report(opened.url, counts, store.url)


def _report(target: str, counts: Counts, store: str) -> int:
    say(f"{target}: {count(counts.rows, 'row')}, {count(counts.artifacts, 'artifact')}")
    if counts.missing:
        missing_artifacts = count(
            counts.missing, "artifact", "has its row, but its bytes are", "have their rows, but their bytes are"
        )
        say(
            f"qverify: {missing_artifacts} not in {store}. Next: --artifacts, or QVERIFY_ARTIFACTS, as the service has it",
            err=True,
        )
    return 1 if counts.missing else 0
