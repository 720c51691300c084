"""Permits for callers outside of any worker: asked for, held, given back."""
