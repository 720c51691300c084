"""What hands in work and follows it: from threads, async code, many processes, after a fork."""
