"""An app of a user, and the command line as it is run on it."""

import subprocess
from collections.abc import Callable

SHOP = """
from typing import Annotated
from pydantic import BaseModel
from limpet import App, Secret

app = App("sqlite:///jobs.db")
not_an_app = 5

class Template(BaseModel):
    name: str
    token: Annotated[str, Secret]

@app.task(queue="email")
async def send(to: str, template: Template | None = None) -> None: ...

@app.task
def add(a: int, b: int) -> int:
    return a + b
"""

Run = Callable[..., subprocess.CompletedProcess[str]]
