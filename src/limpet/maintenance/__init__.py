"""Services that keep the store in order, one in each file; the supervisor of a worker runs them."""
