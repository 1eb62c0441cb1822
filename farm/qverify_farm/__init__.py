"""Suites of jobs over many boards, and the service in front of them. farm/README.md describes the packages and the rules
between them."""
