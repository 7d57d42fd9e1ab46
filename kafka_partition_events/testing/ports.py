"""Pick loopback ports that stay ours while a broker is down."""

import contextlib
import random
import socket

HOST = "127.0.0.1"

# Below the range from which the kernel takes the ports of outgoing connections (32768 up on Linux, 49152
# up on macOS). A port from that range, which `bind(0)` would give, can be taken by any client while its
# broker is down for a restart; a client that keeps dialling it may even connect to itself and so hold it.
_RANGE = range(15_000, 32_000)
_ATTEMPTS = 1_000


def free_ports(count: int) -> list[int]:
    """Return `count` different ports of the loopback address on which nothing listens now.

    Raises:
        OSError: there are not that many.
    """
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for port in random.sample(_RANGE, _ATTEMPTS):
            probe = held.enter_context(socket.socket())
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Kafka does
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise OSError(f"no {count} free ports on {HOST} between {_RANGE.start} and {_RANGE.stop}")
