"""Which calls are seen, who is dying: what a lane and a zygote look at, without a worker."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from limpet.host.dying import is_dying

_SCRIPT = """
import importlib, os, pickle, resource, signal, sys
from limpet.worker.executor import watched_calls as calls
calls.watch()
calls.watch()  # a second time changes nothing
from limpet.host.itself import c_environment
from limpet.worker.executor.process_state import ProcessState

state = ProcessState()
assert not calls.made

for module, topic, names in calls._CALLS:
    for name in names:
        call = getattr(module, name, None)
        if call is not None:
            assert pickle.loads(pickle.dumps(call)) is call, name
            try:
                call()
            except TypeError:
                pass
            assert topic in calls.made, name

os.environ["BY_A_JOB"] = "x"
os.putenv("BY_PUTENV", "x")
sys.path.insert(0, sys.argv[1])
importlib.import_module("sets_a_variable")
assert calls.imported == {b"ON_IMPORT": b"x"}
assert state.restore() == ""
assert "ON_IMPORT" in os.environ and "BY_A_JOB" not in os.environ
assert b"BY_PUTENV" not in c_environment()
os.environ["ON_IMPORT"] = "changed"
assert state.restore() == ""
assert os.environ["ON_IMPORT"] == "x"
print("well")
"""


def test_each_watched_call_is_seen_and_what_an_import_adds_is_known(tmp_path: object) -> None:
    with open(f"{tmp_path}/sets_a_variable.py", "w") as file:
        file.write("import os\nos.environ['ON_IMPORT'] = 'x'\n")
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "well\n", done.stderr


_REMOVED = """
import os, sys
from limpet.worker.executor import watched_calls as calls
calls.watch()
from limpet.worker.executor.process_state import ProcessState

os.chdir(sys.argv[1])
os.rmdir(sys.argv[1])
state = ProcessState()
assert state.restore() == ""
assert state.look(idle=True) == ""
os.chdir("/")
assert state.restore() == "its folder"
print("well")
"""


def test_a_process_may_begin_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    run_script(_REMOVED, gone)


_FROM_OUTSIDE = """
import os, resource, subprocess, sys
from limpet.worker.executor import watched_calls as calls
calls.watch()
from limpet.worker.executor.process_state import ProcessState

one = sorted(os.sched_getaffinity(0))[0]
state = ProcessState()

def outside(words):
    subprocess.run([sys.executable, "-c", "import os; " + words], check=True)

outside(f"os.sched_setaffinity({os.getpid()}, [{one}])")
outside(f"os.setpriority(os.PRIO_PROCESS, {os.getpid()}, 7)")
assert state.look(idle=True) == ""
assert os.sched_getaffinity(0) == {one}
assert os.getpriority(os.PRIO_PROCESS, 0) == 7
print("well")
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux")
def test_processors_and_priority_given_from_outside_stay(tmp_path: Path) -> None:
    run_script(_FROM_OUTSIDE, tmp_path)


def run_script(script: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "well\n", done.stderr


@pytest.mark.parametrize("prepared", ["", "signal.pthread_sigmask(signal.SIG_BLOCK, {15})",
                                      "signal.signal(15, signal.SIG_IGN)"])  # fmt: skip
def test_a_process_is_dying_once_it_was_sent_what_will_end_it(prepared: str) -> None:
    """It is stopped meanwhile, so that the signal has been sent and nothing has come of it."""
    script = f"import signal, sys, time\n{prepared}\nprint('ready', flush=True)\ntime.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert not is_dying(child.pid)
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        assert not is_dying(child.pid)
        os.kill(child.pid, signal.SIGTERM)
        assert is_dying(child.pid) is (prepared == "")
        os.kill(child.pid, signal.SIGKILL)
        give_up = time.monotonic() + 10
        while not is_dying(child.pid):
            assert time.monotonic() < give_up
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
