"""What a job says is never taken for what the worker says."""

import json
import re

from acceptance.test_hostile_words import CONTROLS, FORGED
from worker.place import Place, until

from limpet.domain.printable import MARK

SOURCE = f"""
import logging
from limpet import App, Context, Retry, Unrecoverable

app = App("sqlite://")
HOSTILE = {CONTROLS!r}
TEXT = "said" + "".join(HOSTILE) + "\\x1b[2J\\n{FORGED}\\r{FORGED}\\u2028{FORGED}"

def speak(ctx):
    ctx.log.warning("{FORGED}")
    ctx.log.error(TEXT)
    try:
        raise ValueError(TEXT)
    except ValueError:
        logging.getLogger("shop").exception(TEXT)

@app.task
def fails(ctx: Context) -> None:
    speak(ctx)
    raise RuntimeError(TEXT)

@app.task
async def fails_async(ctx: Context) -> None:
    speak(ctx)
    raise Unrecoverable(TEXT)
"""
OURS = re.compile(r"\d\d:\d\d:\d\d\.\d{3} [●▲✖·] ")


def test_no_line_of_a_job_begins_a_line_of_the_worker_s_log(place: Place) -> None:
    target = place.module(SOURCE)
    worker = place.begin_worker("--log", "plain", "--lanes", "1", target=target)
    until(lambda: "is ready" in worker.text, said="the worker is ready")
    options = json.dumps({"retry": {"attempts": 1}})
    jobs = [place.hand_in(name, "{}", options=options) for name in ("fails", "fails_async")]
    place.until_over(*jobs)
    until(lambda: worker.text.count("failed and will not be tried again") == 2)
    worker.stop()
    text = worker.log_file.read_bytes().decode()
    assert {letter for letter in text if letter in CONTROLS} == {"\n"}
    lines = text.splitlines()
    strange = [line for line in lines if not OURS.match(line) and not line.startswith(MARK)]
    assert strange == []
    # Whose line it is stands before what a job has logged.
    said = [line for line in lines if re.match(OURS.pattern + r"(limpet[.]job|shop) [|] ", line)]
    assert len(said) == 6
    others = [line for line in lines if line not in said and not line.startswith(MARK)]
    assert len([line for line in others if FORGED in line]) == 2  # why it failed
