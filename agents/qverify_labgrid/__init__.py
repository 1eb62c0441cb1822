"""The program that holds places of labgrid for qverify. qverify_agents.boards.labgrid starts it in the Python that has
labgrid, which need not have qverify; nothing imports it."""
