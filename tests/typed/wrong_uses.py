"""Ten wrong uses of the API. mypy must refuse each line that is marked, once, and no other."""

from limpet import App, Retry

app = App("sqlite://")


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task(queue="email")
async def send(to: str) -> str:
    return to


app.task(queue=3)  # wrong
add.using(delya="3s")  # wrong
app.task(isolation="thread")  # wrong
add.using(heavy=True)  # wrong
add.enqueue("one", b=2)  # wrong
total: str = add(1, 2)  # wrong
sent: str = send("a@b.c")  # wrong
app.every("15m", catch_up="some")  # wrong
app.scanner(every="15m", retry=Retry())  # wrong
app.flow(add.call(1, 2), [send])  # wrong
