"""The options of the commands, each declared once, and how words and keywords become values.

models.py ... output.py, tools.py   the tables: a group of the help each, in its order
commands.py                         which command has which options, in the order of its reference
as_click.py                         an option as a parameter of click, which parses and checks
parse.py                            keywords of Python, suites and HTTP, checked as a command line
given.py                            the values that were given, which qverify.session.requests makes a request of"""
