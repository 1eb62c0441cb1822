"""The program that acquires places of labgrid for qverify and releases them. qverify_agents.boards.labgrid starts it in
the Python that has labgrid, which need not have qverify. No other package imports it."""
