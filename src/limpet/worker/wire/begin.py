"""Runs a module as a process of the worker; a shortage ends it with a sentence, not a traceback.

Imports only the standard library, host and domain, because the guardian starts here too. The import
of the module is covered as well, because the shortage may show there.
"""

import contextlib
import json
import os
import runpy
import sys

from limpet.domain.printable import printable
from limpet.host.shortage import is_lack, sentence_of
from limpet.worker.wire.plan import VARIABLE

# The exit code of a process that lacked memory, files or processes.
LACKED = 73


def main() -> None:
    """Run the module that the command line names."""
    module = sys.argv[1]
    debug = json.loads(os.environ.get(VARIABLE, "{}")).get("debug", False)
    sys.argv = sys.argv[1:]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except Exception as error:
        if debug or not is_lack(error):
            code = 1
            with contextlib.suppress(Exception):
                sys.excepthook(type(error), error, error.__traceback__)
                sys.stderr.flush()
        else:
            code = LACKED
            name = module.rpartition(".")[2]
            text = f"limpet: the {name} cannot go on: {printable(sentence_of(error))}\n"
            with contextlib.suppress(OSError):
                os.write(2, text.encode(errors="replace"))
        # Not by the interpreter's own shutdown: threads that wait for the store would delay it.
        os._exit(code)


if __name__ == "__main__":
    main()
