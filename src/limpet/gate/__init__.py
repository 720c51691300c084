"""Admission of heavy work: what a host carries, what it has given away, and what may begin."""
