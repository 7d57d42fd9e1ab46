"""Log lines go to whom the application has told to take them, and never out of a line of ours."""

import logging
import subprocess
import sys

import pytest
import structlog
from structlog.testing import capture_logs

from kafka_partition_events.log import get_logger

LOG = get_logger("kafka_partition_events.test")


class TestStdlib:
    """As structlog is at the start of each test: not configured."""

    def test_a_line_has_its_event_and_its_facts(self, caplog: pytest.LogCaptureFixture) -> None:
        LOG.bind(sink="s3").warning("delivery_failed", failures=2)
        (record,) = caplog.records
        assert record.getMessage() == "delivery_failed sink=s3 failures=2"
        assert (record.name, record.levelname) == ("kafka_partition_events.test", "WARNING")
        assert record.filename == "test_log.py"

    def test_a_traceback_comes_last(self, caplog: pytest.LogCaptureFixture) -> None:
        LOG.error("listener_failed", exception="Traceback: no", listener="mine")
        assert caplog.messages == ["listener_failed listener=mine\nTraceback: no"]

    def test_the_level_of_the_library_holds(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.CRITICAL, "kafka_partition_events"):
            LOG.error("something")
        assert caplog.records == []

    def test_a_handler_that_raises_stays_its_own_affair(self) -> None:
        class Broken(logging.Handler):
            def emit(self, _record: logging.LogRecord) -> None:
                raise ZeroDivisionError

        logger = logging.getLogger("kafka_partition_events.test")
        logger.addHandler(broken := Broken())
        try:
            LOG.critical("something")
        finally:
            logger.removeHandler(broken)


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "critical"])
def test_structlog_takes_the_lines_once_it_is_configured(level: str) -> None:
    with capture_logs() as logs:
        getattr(LOG.bind(sink="s3"), level)("something", failures=2)
    assert logs == [{"event": "something", "log_level": level, "sink": "s3", "failures": 2}]


def test_a_structlog_that_raises_stays_its_own_affair() -> None:
    with capture_logs():
        structlog.configure(processors=[lambda *_: 1 / 0])  # type: ignore[list-item]
        LOG.error("something")


def test_standard_output_is_the_applications() -> None:
    program = (
        "import sys; from kafka_partition_events.log import get_logger;"
        "get_logger('kafka_partition_events.x').error('something');"
        "sys.stdout.close(); sys.stderr.close(); get_logger('kafka_partition_events.x').error('more')"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "something\n")
