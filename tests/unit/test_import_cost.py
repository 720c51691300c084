"""Importing Limpet loads little, so that a guardian or a command line stays small."""

import subprocess
import sys

HEAVY = ("apsw", "pydantic", "msgspec", "asyncio", "limpet.storage", "limpet.client")


def loaded(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    return set(output.stdout.decode().split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not loaded("import limpet") & set(HEAVY)


def test_a_guardian_loads_the_standard_library_and_empty_packages() -> None:
    found = {name for name in loaded("import limpet.worker.guardian.guardian") if "limpet." in name}
    assert not found & set(HEAVY)
    assert {name.split(".")[1] for name in found} == {"domain", "host", "worker"}
    assert {name for name in found if name.startswith("limpet.worker.wire.")} == {
        "limpet.worker.wire.page",
        "limpet.worker.wire.plan",
    }
    assert {name for name in found if name.startswith("limpet.host.")} == {
        "limpet.host.locks",
        "limpet.host.marks",
        "limpet.host.processes",
        "limpet.host.run_directory",
        "limpet.host.shortage",
        "limpet.host.signals",
    }


def test_an_app_of_plain_tasks_needs_no_pydantic() -> None:
    code = (
        "from limpet import App\n"
        "app = App('sqlite://')\n"
        "@app.task\n"
        "def add(a: int, b: int) -> int: return a + b\n"
        "add.enqueue(a=1, b=2)\n"
    )
    assert "pydantic" not in loaded(code)


def test_the_guardian_of_a_command_loads_as_little() -> None:
    found = {name for name in loaded("import limpet.gate.run.guardian") if "limpet." in name}
    assert found == {
        "limpet.gate",
        "limpet.gate.run",
        "limpet.gate.run.guardian",
        "limpet.host",
        "limpet.host.marks",
        "limpet.host.processes",
        "limpet.host.signals",
        "limpet.worker",
        "limpet.worker.wire",
        "limpet.worker.wire.page",
    }
