"""A command under a permit, contained by a guardian of its own."""
