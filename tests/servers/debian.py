"""Gets the programs that the tests need and no wheel carries: PostgreSQL 15, PgBouncer, OpenSSL.

What the system has is used. What it lacks is taken from Debian's packages and unpacked into a
folder of the checkout; nothing is installed, so that it needs no rights and leaves no trace. Where
that cannot be done it ends with 1 and says what to install. Run as a script, before the tests.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / ".servers" / "debian"
# Package → its program, and the variable that names another.
PROGRAMS = {
    "postgresql-15": ("usr/lib/postgresql/15/bin/postgres", "LIMPET_TEST_POSTGRES_15"),
    "pgbouncer": ("usr/sbin/pgbouncer", "LIMPET_TEST_PGBOUNCER"),
    "openssl": ("usr/bin/openssl", "LIMPET_TEST_OPENSSL"),
}
# Where apt keeps what it reads, if the system's own is empty or not ours to write.
_OWN_LISTS = ("State::lists", "Cache")
_SECONDS = 600


class CannotFetch(Exception):
    """A package cannot be had; the sentence says why."""


def found(package: str) -> Path | None:
    """The program of a package: the one that is named, the system's, or an unpacked one."""
    place, variable = PROGRAMS[package]
    named = os.environ.get(variable)
    for each in (named, shutil.which(Path(place).name), f"/{place}", UNPACKED / place):
        if each and os.access(each, os.X_OK) and _is_wanted(package, Path(each)):
            return Path(each)
    return None


def _is_wanted(package: str, program: Path) -> bool:
    if package != "postgresql-15":
        return True
    said = subprocess.run(
        [program, "--version"],
        env=environment(program),
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return " 15." in said


def environment(program: Path) -> dict[str, str]:
    """What an unpacked program needs to find its libraries; nothing for one of the system."""
    for root in program.parents:
        if root.name == UNPACKED.name and (root / "usr").is_dir():
            folders = sorted({each.parent for each in (root / "usr/lib").glob("*-linux-*/*.so*")})
            return {"LD_LIBRARY_PATH": ":".join(map(str, folders))}
    return {}


def fetch(packages: list[str]) -> None:
    """Unpack packages with all that they need and the system lacks; raises `CannotFetch`."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise CannotFetch("this is not Debian, so they cannot be fetched")
    folder = UNPACKED.with_name("debian.packages")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        options = [] if _knows([], packages) else _own_lists(folder)
        listed = _said(["apt-get", *options, "-s", "install", "--no-install-recommends", *packages])
        names = [line.split()[1] for line in listed.splitlines() if line.startswith("Inst ")]
        _said(["apt-get", *options, "-o", "APT::Sandbox::User=root", "download", *names], folder)
        for each in sorted(folder.glob("*.deb")):
            _said(["dpkg", "-x", str(each), str(UNPACKED)])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _knows(options: list[str], packages: list[str]) -> bool:
    try:
        _said(["apt-cache", *options, "show", *packages])
    except CannotFetch:
        return False
    return True


def _own_lists(folder: Path) -> list[str]:
    options = ["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root"]
    for name in _OWN_LISTS:
        own = folder / name.rpartition(":")[2]
        (own / "partial").mkdir(parents=True)
        options += ["-o", f"Dir::{name}={own}"]
    _said(["apt-get", *options, "update"])
    return options


def _said(command: list[str], folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CannotFetch(f"{command[0]} took longer than {_SECONDS} s") from None
    if done.returncode != 0:
        raise CannotFetch(f"{command[0]} says: {done.stderr.strip()[-500:]}")
    return done.stdout


def sentence(packages: list[str], why: str) -> str:
    """What to do about programs that are not there."""
    variables = " and ".join(PROGRAMS[each][1] for each in packages)
    return (
        f"The tests need {', '.join(packages)}: {why}. Install "
        f"{'it' if len(packages) == 1 else 'them'}, or name the program in {variables}."
    )


def main() -> int:
    missing = [package for package in PROGRAMS if found(package) is None]
    if not missing:
        return 0
    try:
        fetch(missing)
    except CannotFetch as error:
        print(sentence(missing, str(error)), file=sys.stderr)
        return 1
    missing = [package for package in missing if found(package) is None]
    if missing:
        print(sentence(missing, "what was fetched does not run here"), file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
