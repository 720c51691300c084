"""Services that keep the store in order, one for each file; a worker runs them."""
