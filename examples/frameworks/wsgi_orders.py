"""A WSGI application whose producer gunicorn_conf.py makes in each worker."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

producer: Any = None


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    producer.produce("orders", environ["wsgi.input"].read(), on_delivery=_done)
    start_response("202 Accepted", [("content-length", "0")])
    return []


def _done(error: Any, _message: Any) -> None:
    if error is not None:  # its client has its answer by now
        logging.getLogger(__name__).error("an order is lost: %s", error)
