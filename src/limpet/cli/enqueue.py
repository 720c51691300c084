"""`limpet enqueue`: hand in a job by hand."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from limpet.cli.command import command, group
from limpet.cli.json_input import json_object
from limpet.cli.output import print_json, print_line
from limpet.cli.target import Common, find_app


def _option(name: str, metavar: str, text: str) -> Any:
    return typer.Option(name, metavar=metavar, help=text)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the new job."""

    queue: Annotated[str | None, _option("--queue", "NAME", "another queue than the task's")] = None
    priority: Annotated[int | None, _option("--priority", "N", "higher is sooner")] = None
    delay: Annotated[str | None, _option("--delay", "TIME", "not before, as in 10m")] = None
    expires: Annotated[
        str | None, _option("--expires", "TIME", "dropped if not started by then, as in 1h")
    ] = None
    deadline: Annotated[
        str | None, _option("--deadline", "TIME", "all attempts together end by then, as in 2h")
    ] = None
    key: Annotated[
        str | None,
        _option("--key", "KEY", "jobs of one key run one at a time, as in customer:42"),
    ] = None
    unique: Annotated[
        str | None, _option("--unique", "TEXT", "not while another job of the task has this name")
    ] = None


app = group()


@command(
    app,
    "enqueue",
    "hand in a job",
    about="Check the arguments against the task of the app and hand in a job.",
)
def enqueue(
    task: Annotated[str, typer.Argument(metavar="TASK", help="the task's name")],
    options: Options,
    common: Common,
    args: Annotated[
        str, typer.Argument(metavar="ARGS", help="a JSON object; - reads it from input")
    ] = "{}",
) -> int:
    """Check the arguments against the task and enqueue."""
    found = find_app(common)
    chosen = {name: value for name, value in asdict(options).items() if value is not None}
    bound = found.find(task).using(**chosen)
    job = found.enqueue_many([bound.call(**json_object(args))])[0]
    if common.json:
        from limpet.ops.inspect import show_job

        print_json(show_job(found.client.store, job.id))
    else:
        there = "" if job.accepted else "; it was there before, and nothing was handed in"
        print_line(f"{job.id}  {bound.name} is {job.state} on queue {bound.options.queue}{there}")
    return 0
