"""Limpet: a job system in which a job cannot be orphaned."""

__version__ = "0.1.0"
