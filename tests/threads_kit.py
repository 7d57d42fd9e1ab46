"""Several jobs at once."""

import threading
from collections.abc import Callable

WAIT_S = 60.0


def together(*jobs: Callable[[], object]) -> None:
    """Run the jobs at once and raise what any of them raised."""
    errors: list[BaseException] = []
    gate = threading.Barrier(len(jobs))

    def run(job: Callable[[], object]) -> None:
        try:
            gate.wait(WAIT_S)
            job()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive(), "this takes too long"
    if errors:
        raise errors[0]
