"""The command line: the composition root; nobody imports it."""
