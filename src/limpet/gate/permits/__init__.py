"""Permits of callers outside of workers."""
