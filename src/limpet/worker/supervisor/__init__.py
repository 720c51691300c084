"""The only process of a worker that talks to the store: it claims, renews, settles and sweeps."""
