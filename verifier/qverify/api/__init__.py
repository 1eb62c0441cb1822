"""What `import qverify` offers: the commands as functions, and their results. Nothing prints, ends the process or changes
it; a mistake is an exception of qverify.errors (docs/reference/python.md)."""
