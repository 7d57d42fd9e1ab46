"""A WSGI application whose producer gunicorn_conf.py makes in each worker."""

from collections.abc import Callable, Iterable
from typing import Any

producer: Any = None


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    producer.produce("orders", environ["wsgi.input"].read())
    start_response("202 Accepted", [("content-length", "0")])
    return []
