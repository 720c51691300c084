"""What the workers of these tests are started with: the app with all its tasks."""

from worker import tasks
from worker.base import app

__all__ = ["app", "tasks"]
