"""How stores keep values as text, and how those are read."""
