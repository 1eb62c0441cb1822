"""The commands as functions, and their results, for `import qverify`. No function prints, ends the process or changes
its global state; a mistake raises an exception of qverify.errors (docs/reference/python.md)."""
