"""Admission of heavy work: what a host carries, what is given away, and who may begin."""
