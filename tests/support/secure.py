"""A broker that lets nobody in without TLS and a password or a token, and allows nothing that no rule allows.

A second, plain listener is there for the tests themselves: whoever comes by it may do everything.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.support.broker import Broker, free_ports
from tests.support.tokens import public_keys

MAKE_CERTIFICATE = (
    *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"),
    *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
)
USER, PASSWORD = "flow", "nobody-may-read-this"
MECHANISM = "SCRAM-SHA-512"
AUDIENCE = "kafka"
OAUTH = "org.apache.kafka.common.security.oauthbearer"


class SecureBroker(Broker):
    """With certificates made for it, and one user."""

    def __init__(self, directory: Path) -> None:
        [self._secure_port] = free_ports(1)
        self.authority = directory / "ca.pem"
        self._keys = directory / "broker.pem"
        self.token_keys = directory / "jwks.json"
        """Whoever signs with one of these is believed; to be filled before the first token comes."""
        super().__init__(
            directory,
            settings={
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
                "sasl.enabled.mechanisms": f"{MECHANISM},OAUTHBEARER",
                "listener.name.secure.scram-sha-512.sasl.jaas.config":
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;",
                "listener.name.secure.oauthbearer.sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
                "listener.name.secure.oauthbearer.sasl.server.callback.handler.class":
                    f"{OAUTH}.OAuthBearerValidatorCallbackHandler",
                "listener.name.secure.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self.token_keys.as_uri(),
                "listener.name.secure.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self._keys),
                "allow.everyone.if.no.acl.found": "false",
                "super.users": "User:ANONYMOUS",
            },
        )  # fmt: skip

    @property
    def address(self) -> str:
        """Of the listener that wants TLS and a password."""
        return f"localhost:{self._secure_port}"

    @property
    def client(self) -> dict[str, str]:
        """What a client needs, as in a flow's `[kafka]`."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": USER,
            "sasl.password": "${FLOW_PASSWORD}",
            "ssl.ca.location": str(self.authority),
        }

    def _machine_options(self) -> list[str]:
        return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.token_keys.as_uri()}"]

    def start(self, timeout: float = 60.0) -> str:
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self._keys.exists():
            key = self.directory / "key.pem"
            subprocess.run(
                [*MAKE_CERTIFICATE, "-keyout", str(key), "-out", str(self.authority)],
                check=True,
                capture_output=True,
            )
            self._keys.write_bytes(key.read_bytes() + self.authority.read_bytes())
        if not self.token_keys.exists():
            self.token_keys.write_text(public_keys())
        return super().start(timeout)

    def _listeners(self) -> Mapping[str, str]:
        settings = super()._listeners()
        return {
            "listeners": f"{settings['listeners']},SECURE://127.0.0.1:{self._secure_port}",
            "advertised.listeners": f"{settings['advertised.listeners']},SECURE://{self.address}",
        }

    def _format_options(self) -> list[str]:
        return ["--add-scram", f"{MECHANISM}=[name={USER},password={PASSWORD}]"]


Right = tuple[ResourceType, str, AclOperation]
"""Of what kind, its name (of transactional ids: how they begin), what may be done."""


class Rights:
    """What the user may do; to be given and taken one by one."""

    def __init__(self, broker: SecureBroker) -> None:
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})

    def give(self, *rights: Right) -> None:
        for done in self._admin.create_acls([self._rule(right) for right in rights], request_timeout=30).values():
            done.result(30)

    def take(self, right: Right) -> None:
        rule = self._rule(right)
        pattern, allowed = rule.resource_pattern_type, rule.permission_type
        wanted = AclBindingFilter(rule.restype, rule.name, pattern, rule.principal, "*", rule.operation, allowed)
        for done in self._admin.delete_acls([wanted], request_timeout=30).values():
            assert len(done.result(30)) == 1, right

    def _rule(self, right: Right) -> AclBinding:
        kind, name, operation = right
        prefixed = kind is ResourceType.TRANSACTIONAL_ID
        pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
        return AclBinding(kind, name, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
