"""A network of hosts whose packets a test may lose, delay or stop, each way for itself.

Each host is a network namespace with one tun device. What it sends comes here as whole IP packets,
and goes on to whoever it is for, so that all that TCP does about loss is done by the kernel. (A
queueing discipline of the kernel would do, and is not built into every kernel.)
"""

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass, replace
from itertools import count

_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8916, 0x891C, 0x8913, 0x8914
_IFF_UP = 0x1
_DEVICE, _MASK = b"wire", "255.255.255.0"
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Way:
    """What becomes of a packet on its way; `loss` is a share."""

    seconds: float = 0.0
    loss: float = 0.0
    cut: bool = False


GOOD, CUT = Way(), Way(cut=True)


def address(number: int) -> str:
    """That of the host with this number."""
    return f"10.77.0.{number + 1}"


class Fabric:
    """Passes packets between hosts, in a thread of its own."""

    def __init__(self, seed: int = 0) -> None:
        self._chance = random.Random(seed)
        self._devices: dict[str, int] = {}
        # (from, to) → what becomes of the packets; GOOD where nothing is said
        self._ways: dict[tuple[str, str], Way] = {}
        self._due: list[tuple[float, int, int, bytes]] = []
        self._number = count()
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._wake, self._nudge = os.pipe()
        self._thread = threading.Thread(target=self._pass_on, name="fabric", daemon=True)
        self._thread.start()
        self.passed = self.lost = 0

    def attach(self, number: int, namespace: str) -> str:
        """Give a host, by the path of its namespace, a device; the answer is its address."""
        place: list[int] = []
        maker = threading.Thread(target=lambda: place.append(_device_in(namespace, number)))
        maker.start()  # a thread of its own, because it changes the namespace it is in
        maker.join()
        with self._lock:
            self._devices[address(number)] = place[0]
        os.write(self._nudge, b"x")
        return address(number)

    def set(self, one: int, other: int, way: Way, back: Way | None = None) -> None:
        """What becomes of packets from one host to the other, and back."""
        here, there = address(one), address(other)
        with self._lock:
            self._ways[here, there] = way
            self._ways[there, here] = way if back is None else back

    def close(self) -> None:
        self._ends.set()
        os.write(self._nudge, b"x")
        self._thread.join(10)
        for device in (*self._devices.values(), self._wake, self._nudge):
            os.close(device)

    # -- in its thread

    def _pass_on(self) -> None:
        while not self._ends.is_set():
            with self._lock:
                devices = list(self._devices.values())
            left = self._due[0][0] - time.monotonic() if self._due else 1.0
            for each in select.select([*devices, self._wake], [], [], max(0.0, left))[0]:
                packet = os.read(each, _MOST_BYTES)
                if each != self._wake:
                    self._take(packet)
            while self._due and self._due[0][0] <= time.monotonic():
                _, _, device, packet = heapq.heappop(self._due)
                with contextlib.suppress(OSError):
                    os.write(device, packet)

    def _take(self, packet: bytes) -> None:
        if len(packet) < 20 or packet[0] >> 4 != 4:
            return  # what a host says to find its neighbours by IPv6
        one, other = socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])
        with self._lock:
            device = self._devices.get(other)
            way = self._ways.get((one, other), GOOD)
        if device is None:
            return
        if way.cut or self._chance.random() < way.loss:
            self.lost += 1
            return
        self.passed += 1
        heapq.heappush(
            self._due, (time.monotonic() + way.seconds, next(self._number), device, packet)
        )


def bring_up(device: bytes, own: str | None = None) -> None:
    """Bring up a device of the namespace that this thread is in, with an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        for what, text in ((_SIOCSIFADDR, own), (_SIOCSIFNETMASK, own and _MASK)):
            if text:
                inet = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))
                fcntl.ioctl(some, what, struct.pack("16s16s", device, inet))
        asked = fcntl.ioctl(some, _SIOCGIFFLAGS, struct.pack("16sH14x", device, 0))
        (flags,) = struct.unpack("16xH14x", asked)
        fcntl.ioctl(some, _SIOCSIFFLAGS, struct.pack("16sH14x", device, flags | _IFF_UP))


def _device_in(namespace: str, number: int) -> int:
    """Make the device in a network namespace; the descriptor works in any."""
    space = os.open(namespace, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(space, _NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns to {namespace}")
    finally:
        os.close(space)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH14x", _DEVICE, _IFF_TUN | _IFF_NO_PI))
    bring_up(b"lo")
    bring_up(_DEVICE, address(number))
    return device


def both(seconds: float, loss: float) -> Way:
    """One way of a line that takes so many seconds there and back together."""
    return replace(GOOD, seconds=seconds / 2, loss=loss)
