"""A demonstration that can fail: real workers, real kills, and a judge that reads the evidence."""

# The only one of the user's settings that the demo keeps.
KEPT = "LIMPET_PID_NAMESPACE"
