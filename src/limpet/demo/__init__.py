"""A demonstration that can fail: real workers, real kills, and a judge that reads the evidence."""
