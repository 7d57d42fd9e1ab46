"""A fake cluster of 200,000 partitions that answers on the wire, in a process of its own.

Real brokers, and librdkafka's mock too, take minutes to create so many topics. This one knows two requests,
ApiVersions and Metadata, and closes the connection at any other, as Kafka does. Whenever it answers for all
topics it also notes what the process that polls it has cost so far: what lies between two notes is one poll.

``python -m benchmarks.fake_broker PORT...`` listens on a port for each broker. Commands come on standard
input, one a line, and each is answered by one line of JSON. It ends with its input.
"""

import contextlib
import json
import socketserver
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from attrs import asdict, frozen

from benchmarks.errors import BenchError
from benchmarks.fake_answers import BROKERS, Scene, answer, asks_for_all
from benchmarks.measure import cpu_seconds_of, memory_mib
from kafka_partition_events.testing.ports import HOST, free_ports

_LIMIT_S = 60.0
# -- the process -----------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Note:
    """What was true when an answer for all topics began.

    Attributes:
        at: When, by the clock.
        scene: How the cluster is in this answer.
        cpu_s: CPU seconds of the process that polls, so far.
        rss_mib: Its resident memory.
        received: Bytes of requests so far, this one's too.
        sent: Bytes of answers before this one.
    """

    at: float
    scene: Scene
    cpu_s: float
    rss_mib: float
    received: int
    sent: int


def findings(notes: Sequence[Note], settling: int = 0) -> Iterator[tuple[str, list[tuple[Note, Note]]]]:
    """Yield what polls have found, by how the answers differ, with the notes between which they lie.

    Before the first poll there was no change. What a change causes goes on during so many polls more.
    """
    found: tuple[str, list[tuple[Note, Note]]] = "", []
    before = notes[0]
    for now, after in pairwise(notes):
        changed, polls = now.scene != before.scene, found[1]
        if polls and not changed and found[0] != "unchanged" and len(polls) <= settling:
            polls.append((now, after))
            continue
        if polls:
            yield found
        kind = "lose" if now.scene.lost else "return"
        if now.scene.grown != before.scene.grown:
            kind = "grow"
        found = (kind if changed else "unchanged"), [(now, after)]
        before = now
    yield found


def costs(notes: Sequence[Note], settling: int = 0) -> dict[str, list[float]]:
    """Return the CPU seconds of polls, by what they found; a change is not charged what polls cost anyway."""
    polls = [
        (kind, len(found) - 1, found[-1][1].cpu_s - found[0][0].cpu_s)
        for kind, found in findings(notes, settling)
    ]
    anyway = statistics.median(cpu_s for kind, _, cpu_s in polls if kind == "unchanged")
    by_kind: dict[str, list[float]] = defaultdict(list)
    for kind, further, cpu_s in polls:
        by_kind[kind].append(cpu_s - further * anyway)
    return dict(by_kind)


class _Cluster:
    """What all connections share. Thread-safe: one of them is served at a time.

    A change shows from the next answer for all topics on: a client that lists all topics and then describes
    them by name must see one and the same cluster in both.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._lock = threading.RLock()
        self._scene = self._next_scene = Scene()
        self._answers: dict[bytes, bytes | None] = {}
        self._next_answers: dict[bytes, bytes | None] | None = None
        self._pid = 0
        self._pause_s = 0.0
        self._not_before = 0.0
        self._received = self._sent = 0
        self._notes: list[Note] = []
        self._refused: list[int] = []

    def serve(self, request: bytes, send: Callable[[bytes | memoryview], object]) -> bool:
        """Answer a request; tell whether it is known."""
        key, correlation_id = request[:4] + request[8:], request[4:8]
        for_all = asks_for_all(request)
        if for_all:
            time.sleep(max(0.0, self._not_before - time.monotonic()))
        with self._lock:
            self._received += 4 + len(request)
            if for_all:
                if self._next_answers is not None:
                    self._scene, self._answers = self._next_scene, self._next_answers
                    self._next_answers = None
                self._note()
            if key not in self._answers:
                self._answers[key] = answer(request, self._scene, self._ports)
            found = self._answers[key]
            if found is None:
                self._refused.append(struct.unpack_from(">h", request)[0])
                return False
            send(struct.pack(">i", len(found)) + correlation_id)
            send(memoryview(found)[4:])
            self._sent += 4 + len(found)
            self._not_before = time.monotonic() + self._pause_s
        return True

    def obey(self, verb: str, argument: str) -> Any:
        """Carry out a command; return what is told of it."""
        if verb == "count":  # without waiting for who is served
            return len(self._notes)
        if verb == "notes":
            return {"notes": [asdict(note) for note in self._notes], "refused": self._refused}
        if verb == "watch":
            self._pid = int(argument)
        elif verb == "pause":
            self._pause_s = float(argument)
        else:
            self._prepare(self._next_scene.after(verb))
        return None

    def _prepare(self, scene: Scene) -> None:
        """Encode all answers anew, beside the connections: nobody shall wait for it."""
        known = tuple(self._answers)
        answers = {key: answer(key[:4] + bytes(4) + key[4:], scene, self._ports) for key in known}
        with self._lock:
            self._next_scene, self._next_answers = scene, answers

    def _note(self) -> None:
        note = Note(
            at=time.time(),
            scene=self._scene,
            cpu_s=cpu_seconds_of([self._pid]) if self._pid else 0.0,
            rss_mib=memory_mib(self._pid) if self._pid else 0.0,
            received=self._received,
            sent=self._sent,
        )
        self._notes.append(note)


def _listen(cluster: _Cluster, port: int) -> None:
    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):
                while size := self.rfile.read(4):
                    request = self.rfile.read(*struct.unpack(">i", size))
                    if not cluster.serve(request, self.connection.sendall):
                        return

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

    threading.Thread(target=Server((HOST, port), Connection).serve_forever, daemon=True).start()


def serve(ports: Sequence[int]) -> None:
    """Listen, and obey until the input ends."""
    cluster = _Cluster(ports)
    for port in ports:
        _listen(cluster, port)
    print(json.dumps(ports), flush=True)
    for line in sys.stdin:
        verb, _, argument = line.strip().partition(" ")
        print(json.dumps(cluster.obey(verb, argument)), flush=True)


# -- who makes it play -----------------------------------------------------------------------------------


class FakeCluster:
    """The process, from outside. One thread at a time."""

    def __init__(self, process: "subprocess.Popen[str]", ports: Sequence[int]) -> None:
        self._process = process
        self.bootstrap_servers = ",".join(f"{HOST}:{port}" for port in ports)

    def watch(self, pid: int, pause_s: float = 0.0) -> None:
        """Note from now on what this process costs, and let so many seconds pass between two answers.

        An outage makes polls follow each other at once; with a pause, what is told of one is told before the
        next begins.
        """
        self._command(f"watch {pid}")
        self._command(f"pause {pause_s}")

    def change(self, how: str) -> None:
        """``lose`` the broker, let it ``return``, or ``grow`` some topics: from the next poll on."""
        self._command(how)

    def count(self) -> int:
        """Return how many answers for all topics have begun."""
        return int(self._command("count"))

    def await_answers(self, count: int) -> None:
        """Wait until so many more answers for all topics have begun.

        Raises:
            BenchError: there were not.
        """
        wanted, deadline = self.count() + count, time.monotonic() + _LIMIT_S * count
        while self.count() < wanted:
            if time.monotonic() > deadline:
                raise BenchError(f"{count} polls did not come within {_LIMIT_S * count:.0f} s")
            time.sleep(0.1)

    def notes(self) -> list[Note]:
        """Return what was noted.

        Raises:
            BenchError: something was asked that a fake can't answer.
        """
        found = self._command("notes")
        if found["refused"]:
            raise BenchError(f"requests that the fake does not know, by API key: {found['refused']}")
        return [Note(**{**note, "scene": Scene(**note["scene"])}) for note in found["notes"]]

    def _command(self, line: str) -> Any:
        assert self._process.stdin is not None  # noqa: S101 - both were asked for
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        if not said:
            raise BenchError("the fake cluster has ended")
        return json.loads(said)


@contextlib.contextmanager
def fake_cluster() -> Iterator[FakeCluster]:
    """Run a fake cluster."""
    ports = free_ports(len(BROKERS))
    command = [sys.executable, "-m", "benchmarks.fake_broker", *map(str, ports)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            cluster = FakeCluster(process, ports)
            assert process.stdout is not None  # noqa: S101 - asked for
            process.stdout.readline()
            yield cluster
        finally:
            process.kill()


if __name__ == "__main__":
    serve([int(port) for port in sys.argv[1:]])
