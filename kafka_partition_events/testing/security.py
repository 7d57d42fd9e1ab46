"""TLS and a login for a test cluster, made anew for each: a CA, the brokers' certificate and one user.

The certificates come from Java's own ``keytool``, so nothing has to be installed that Kafka does not need
anyway. The kit itself and the brokers among themselves talk over a plain listener next to the secured one.
"""

import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from attrs import field, frozen

from kafka_partition_events.testing.errors import KitError
from kafka_partition_events.testing.ports import HOST

_MECHANISM = "SCRAM-SHA-512"
_STORE, _CA, _PASSWORD = "broker.p12", "ca.pem", "password"  # of files; the directory is ours alone
_LIMIT_S = 60.0


@frozen(kw_only=True)
class Security:
    """How clients log in to a secured cluster: TLS, and SASL with SCRAM-SHA-512.

    Attributes:
        username: The only user.
        password: The user's password.
        ca_file: The CA that has signed the brokers' certificate (PEM).
    """

    username: str = "alice"
    password: str = field(factory=lambda: secrets.token_hex(12), repr=False)
    ca_file: Path

    @classmethod
    def made_in(cls, directory: Path, java: Path) -> Self:
        """Make a CA and a certificate for the loopback address in `directory`; takes about two seconds.

        Args:
            directory: Does not exist yet.
            java: The executable from `java()`.

        Raises:
            KitError: ``keytool`` failed.
        """
        directory.mkdir()
        made = cls(ca_file=directory / _CA)
        (directory / _PASSWORD).write_text(f"{made.password}\n")
        keytool = java.resolve().with_name("keytool")  # every Java has it next to `java`
        pair = ("-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "30")
        for command in (
            (*pair, "-alias", "ca", "-dname", "CN=kafka-partition-events test CA", "-ext", "bc:c"),
            (*pair, "-alias", "broker", "-dname", "CN=broker", "-ext", f"san=ip:{HOST}", "-signer", "ca"),
            ("-exportcert", "-alias", "ca", "-rfc", "-file", _CA),
            ("-delete", "-alias", "ca"),  # Kafka would present it as its own certificate
        ):
            made._run(keytool, *command)
        return made

    # -- for Kafka -----------------------------------------------------------------------------------

    @property
    def broker_settings(self) -> dict[str, str]:
        """What a broker's settings have besides a listener ``SASL_SSL``."""
        scram = f"listener.name.sasl_ssl.{_MECHANISM.lower()}.sasl.jaas.config"
        return {
            "sasl.enabled.mechanisms": _MECHANISM,
            scram: "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.ca_file.with_name(_STORE)),
            "ssl.keystore.password": self.password,
        }

    @property
    def format_options(self) -> tuple[str, ...]:
        """What makes the controller know the user, as options of Kafka's storage tool."""
        return ("--add-scram", f"{_MECHANISM}=[name={self.username},password={self.password}]")

    # -- for clients ---------------------------------------------------------------------------------

    @property
    def confluent_options(self) -> Mapping[str, str]:
        """How confluent-kafka connects."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca_file),
            "sasl.mechanism": _MECHANISM,
            "sasl.username": self.username,
            "sasl.password": self.password,
        }

    @property
    def kafka_python_options(self) -> Mapping[str, str]:
        """How kafka-python connects."""
        return {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(self.ca_file),
            "sasl_mechanism": _MECHANISM,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }

    # -- inside --------------------------------------------------------------------------------------

    def _run(self, keytool: Path, command: str, *options: str) -> None:
        store = ("-keystore", _STORE, "-storetype", "PKCS12", "-storepass:file", _PASSWORD)
        try:
            subprocess.run(  # noqa: S603  # fixed arguments
                [keytool, "-J-XX:TieredStopAtLevel=1", command, *store, *options],
                cwd=self.ca_file.parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_LIMIT_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stdout", None) or ""
            raise KitError(f"could not make the cluster's certificates: {error}\n{said}".rstrip()) from error
