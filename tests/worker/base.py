"""The app of most of these tests; its tasks are in `worker.tasks`, by topic."""

from limpet import App, Retry

# In memory until a place moves it: importing it must not make a file.
app = App("sqlite://")

once = Retry(attempts=1)
soon = Retry(attempts=3, backoff="fixed", delay=0.02, jitter=0)
