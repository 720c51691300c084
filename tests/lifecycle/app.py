"""What the workers of these tests are started with: the app with all its tasks."""

from lifecycle import hostile, tasks, weighted
from lifecycle.base import app

__all__ = ["app", "hostile", "tasks", "weighted"]
