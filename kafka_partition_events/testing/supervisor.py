"""Run one command and make sure that it does not outlive the process that asked for it.

A script of its own, run as ``python -I -S supervisor.py OWNER_PID LOG COMMAND...``; it imports nothing but
the standard library, starts in a few tens of milliseconds and takes about 10 MB. `processes.py` is its
other end. It writes the command's process id to standard output, then reads signal numbers, one a line, from
standard input, passes them on, and writes a line for each that has taken effect: a command is suspended
some time after SIGSTOP was sent, and on a busy machine we do so late. It exits when the command does.

Why a process in between, when the owner could start the command itself? Because nothing the owner does can
still happen after the owner's ``kill -9``, and asking the kernel instead (``PR_SET_PDEATHSIG``) ties the
command to the *thread* that forked it: a cluster started in a worker thread would die with that thread.
Here three things watch, each for a case that the others miss:

1.  The owner holds the only write end of our standard input. However the owner ends, the kernel closes it
    and we read end-of-file at once.
2.  Should another process hold a copy of that write end (the owner forked without exec, as
    ``multiprocessing`` may), end-of-file never comes. So twice a second we compare our parent with the
    owner: an orphan gets another parent.
3.  Should *we* be killed, ``PR_SET_PDEATHSIG`` kills the command. That is sound here, where it was not
    in the owner, because this process has one thread, which lives as long as the process. (Linux only;
    elsewhere 1 and 2 must do.)

All three send SIGKILL, which also ends a process that SIGSTOP has frozen.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys

PARENT_CHECK_S = 0.5
_PR_SET_PDEATHSIG = 1


def _die_with_parent(supervisor: int) -> None:
    """Between fork and exec of the command: tie it to this supervisor."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:  # it died before the line above could take effect
        os.kill(os.getpid(), signal.SIGKILL)


def _wake_on_child_exit() -> int:
    """Return a descriptor that becomes readable when the command ends, so that `select` returns."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return readable


def _relay(command: "subprocess.Popen[bytes]", owner: int, wake: int) -> None:
    """Pass signals on until the command or the owner is gone."""
    pending = b""
    while command.poll() is None and os.getppid() == owner:
        ready, _, _ = select.select([0, wake], [], [], PARENT_CHECK_S)
        if wake in ready:
            os.read(wake, 4096)  # also after a mere SIGSTOP; left unread, it would keep us spinning
        if 0 not in ready:
            continue
        received = os.read(0, 4096)
        if not received:
            return
        *lines, pending = (pending + received).split(b"\n")
        for line in lines:
            _send(command, int(line))
            os.write(1, b"\n")


def _send(command: "subprocess.Popen[bytes]", number: int) -> None:
    command.send_signal(number)
    if number == signal.SIGSTOP and command.returncode is None:
        os.waitid(os.P_PID, command.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def main(owner: int, log: str, argv: list[str]) -> int:
    """Run `argv` with its output appended to `log`; return its exit code as a shell would."""
    wake = _wake_on_child_exit()
    me = os.getpid()
    with open(log, "ab") as output:  # noqa: PTH123  # pathlib would double the start-up time
        command = subprocess.Popen(  # noqa: S603
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=lambda: _die_with_parent(me),  # noqa: PLW1509  # one thread: safe
        )
    try:
        os.write(1, b"%d\n" % command.pid)
        _relay(command, owner, wake)
    finally:
        command.kill()
        code = command.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
