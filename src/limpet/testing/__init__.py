"""The test kit: lets tests of Limpet, and of programs that use it, control time."""
