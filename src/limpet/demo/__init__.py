"""A demonstration that can fail: real workers, real kills, and a judge that reads the evidence."""

# The only setting of the user's that the demo keeps.
KEPT = "LIMPET_PID_NAMESPACE"
