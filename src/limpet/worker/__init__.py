"""The worker: guardian, supervisor, zygote and executors."""
