"""The settings of sinks for those who are on call: what pages and mails them."""

from collections.abc import Mapping

from attrs import frozen

from kafka_partition_events.observe.setting_kinds import (
    BOOLEAN,
    DURATION,
    HEADERS,
    NAME,
    TEXT,
    TEXTS,
    URL,
    URLS,
    one_of,
    setting,
    whole_number,
)

_INCIDENTS = one_of("incidents")


@frozen(kw_only=True)
class AlertmanagerSinkSettings:
    """``[[sinks]]`` with ``type = "alertmanager"``: its API v2; each of ``urls`` gets every alert.

    ``repeat_interval`` is after what time an alert that lasts is posted again. Alertmanagers have private
    addresses as a rule, so these are allowed.
    """

    name: str = setting(NAME, required=True)
    type: str = setting(one_of("alertmanager"), "alertmanager")
    stream: str = setting(_INCIDENTS, "incidents")
    urls: tuple[str, ...] = setting(URLS, required=True)
    repeat_interval: float = setting(DURATION, "1m")
    runbook_url: str | None = setting(URL)
    headers: Mapping[str, str] = setting(HEADERS, {}, secret=True)
    allow_private: bool = setting(BOOLEAN, True)
    timeout: float = setting(DURATION, "10s")
    max_delay: float = setting(DURATION, "1m")
    max_age: float = setting(DURATION, "7d")


@frozen(kw_only=True)
class PagerDutySinkSettings:
    """``[[sinks]]`` with ``type = "pagerduty"``: its Events API v2."""

    name: str = setting(NAME, required=True)
    type: str = setting(one_of("pagerduty"), "pagerduty")
    stream: str = setting(_INCIDENTS, "incidents")
    routing_key: str = setting(TEXT, required=True, secret=True)
    url: str = setting(URL, "https://events.pagerduty.com/v2/enqueue")
    runbook_url: str | None = setting(URL)
    allow_private: bool = setting(BOOLEAN, False)
    timeout: float = setting(DURATION, "10s")
    max_delay: float = setting(DURATION, "1m")
    max_age: float = setting(DURATION, "7d")


@frozen(kw_only=True)
class SmtpSinkSettings:
    """``[[sinks]]`` with ``type = "smtp"``: e-mail, all that belongs to an incident in one thread.

    ``port`` is by default what ``security`` has as its own: 587, 465 or 25. ``ca_file`` has the authorities
    that may have signed the server's certificate, in place of the system's.
    """

    name: str = setting(NAME, required=True)
    type: str = setting(one_of("smtp"), "smtp")
    stream: str = setting(_INCIDENTS, "incidents")
    host: str = setting(TEXT, required=True)
    port: int | None = setting(whole_number(1))
    security: str = setting(one_of("starttls", "tls", "none"), "starttls")
    ca_file: str | None = setting(TEXT)
    username: str | None = setting(TEXT)
    password: str | None = setting(TEXT, secret=True)
    sender: str = setting(TEXT, required=True)
    to: tuple[str, ...] = setting(TEXTS, required=True)
    runbook_url: str | None = setting(URL)
    timeout: float = setting(DURATION, "10s")
    max_delay: float = setting(DURATION, "1m")
    max_age: float = setting(DURATION, "7d")


OnCallSinkSettings = AlertmanagerSinkSettings | PagerDutySinkSettings | SmtpSinkSettings
ON_CALL_TYPES: Mapping[str, type] = {
    "alertmanager": AlertmanagerSinkSettings,
    "pagerduty": PagerDutySinkSettings,
    "smtp": SmtpSinkSettings,
}
