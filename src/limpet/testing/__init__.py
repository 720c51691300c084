"""The test kit: what tests of Limpet, and of programs that use it, need to command time."""
