"""The machine under the work: what it carries, what it has room for, and whose it is."""
