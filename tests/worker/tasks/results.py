"""Tasks that return something."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel
from worker.base import app, once
from worker.notes import note


class Item(BaseModel):
    name: str
    price: float
    added: datetime


class Order(BaseModel):
    items: list[Item]
    note: str | None = None


class Receipt(BaseModel):
    total: float
    at: datetime


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task
async def add_async(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


@app.task(isolation="process")
async def add_in_a_process(a: int, b: int) -> int:
    await asyncio.sleep(0.001)
    return a + b


@app.task
def nothing() -> None: ...


@app.task
async def nothing_async() -> None: ...


@app.task
def price(order: Order) -> Receipt:
    assert isinstance(order, Order)
    assert all(isinstance(item, Item) for item in order.items)
    return Receipt(total=sum(item.price for item in order.items), at=datetime.now(UTC))


@app.task
async def price_async(order: Order, when: datetime) -> Receipt:
    assert isinstance(order.items[0].added, datetime)
    return Receipt(total=sum(item.price for item in order.items), at=when)


@app.task
def large(size: int, path: str) -> str:
    note(path, "run")
    return "x" * size


@app.task
async def large_async(size: int, path: str) -> str:
    note(path, "run")
    return "x" * size


@app.task
def length(text: str) -> int:
    return len(text)


@app.task
async def length_async(text: str) -> int:
    return len(text)


@app.task
def fits(amount: int, path: str) -> int:
    """Its arguments are changed in the store by a test, until they do not fit any more."""
    note(path, "run")
    return amount


@app.task
async def fits_async(amount: int, path: str) -> int:
    note(path, "run")
    return amount


class Stubborn(BaseModel):
    """A model whose validator raises what pydantic does not turn into a `ValidationError`."""

    name: str

    def model_post_init(self, context: Any, /) -> None:
        if self.name == "broken":
            raise RuntimeError("the validator itself is broken")


@app.task(retry=once)
def takes_stubborn(model: Stubborn) -> str:
    return model.name


@app.task(retry=once)
async def takes_stubborn_async(model: Stubborn) -> str:
    return model.name


@app.task
def gives(what: str, path: str) -> Any:
    """Returns something that JSON cannot hold."""
    note(path, "run")
    return _odd(what)


@app.task
async def gives_async(what: str, path: str) -> Any:
    note(path, "run")
    return _odd(what)


@app.task
def promises_a_number(path: str) -> int:
    note(path, "run")
    return "not a number"  # type: ignore[return-value]


def _odd(what: str) -> Any:
    def generator() -> Iterator[int]:
        yield 1

    odd: dict[str, Any] = {
        "nan": float("nan"),
        "infinity": [1.0, float("inf")],
        "generator": generator(),
        "object": object(),
        "set": {1, 2},
        "bytes": b"raw",
        "surrogate": "\ud800",
        "key": {1: "one"},
    }
    itself: list[Any] = []
    itself.append(itself)
    odd["itself"] = itself
    return odd[what]
