"""Offers the commands as functions, and their results, for `import qverify`. Nothing prints, ends the process or changes
it; a mistake is an exception of qverify.errors (docs/reference/python.md)."""
