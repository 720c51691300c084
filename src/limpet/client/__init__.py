"""Hands in jobs and follows them: from threads, async code, many processes, and after a fork."""
