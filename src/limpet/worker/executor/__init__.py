"""The processes that run user code: the zygote, and the executors that it forks."""
