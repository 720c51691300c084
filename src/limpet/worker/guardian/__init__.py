"""The root of a worker's tree: it starts the supervisor, and ends what a death leaves behind."""
