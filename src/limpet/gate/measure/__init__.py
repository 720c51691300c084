"""What a host has and what is used of it."""
