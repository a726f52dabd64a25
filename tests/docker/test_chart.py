"""The chart, rendered by Helm and held against Kubernetes' own schemas."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.docker import custom_resources
from tests.docker.test_files import parses
from tests.docker.test_monitoring import ALERTS, DASHBOARD
from tests.support import helm
from tests.support.helm import HelmUnavailable, Manifest, Refused, template

ROOT = Path(__file__).resolve().parents[2]
FLOW = (ROOT / "docker" / "flow.toml").read_text()
VERSIONS = ("1.27", "1.33")
SECRET = {
    "kafka": {"security.protocol": "SASL_SSL", "sasl.username": "spam", "sasl.password": "${KAFKA_PASSWORD}"},
    "secrets": [{"name": "KAFKA_PASSWORD", "secret": "kafka-user", "key": "password"}],
    "secretFiles": [{"secret": "kafka-ca", "path": "/etc/kafka"}],
}
SCALED = {
    "keda": {"enabled": True, "bootstrapServers": "kafka:9092", "group": "spam", "topic": "mails", "maxReplicas": 12}
}
EVERYTHING = {
    **SECRET,
    **SCALED,
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "alerts": {"enabled": True},
    "dashboard": {"enabled": True},
    "networkPolicy": {
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 9093, "protocol": "TCP"}]}],
    },
    "imagePullSecrets": [{"name": "registry"}],
    "image": {"digest": "sha256:" + "0" * 64},
    "environment": {"KAFKA": "kafka:9092", "DEPTH": 3},
    "podAnnotations": {"team": "streams"},
    "podLabels": {"tier": "streams"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "streams", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
    "serviceAccount": {"annotations": {"role": "none"}},
    "createTopics": True,
}


@pytest.fixture(scope="module", autouse=True)
def _helm() -> None:
    try:
        template({"flow": FLOW})
    except HelmUnavailable as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(problem))


def rendered(values: Mapping[str, Any]) -> dict[str, Manifest]:
    """By kind and name; each as its schema wants it."""
    found = template({"flow": FLOW, **values})
    for manifest in found:
        if manifest["kind"] in custom_resources.SCHEMAS:
            custom_resources.validate(manifest)
        else:
            for version in VERSIONS:
                kubernetes_validate.validate(manifest, version, strict=True)
    return {f"{manifest['kind']}/{manifest['metadata']['name']}": manifest for manifest in found}


def pod(manifests: Mapping[str, Manifest], kind: str = "Deployment") -> dict[str, Any]:
    spec: dict[str, Any] = manifests[f"{kind}/spam"]["spec"]["template"]["spec"]
    return spec


def test_helm_finds_no_fault() -> None:
    assert "ERROR" not in helm.lint({"flow": FLOW})


@pytest.mark.parametrize("workload", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize("replicas", [1, 3, 12])
def test_rendered_for_some_processes(replicas: int, workload: str) -> None:
    found = rendered({"replicas": replicas, "workload": workload})
    spec = found[f"{workload}/spam"]["spec"]
    assert spec["replicas"] == replicas
    labels = spec["template"]["metadata"]["labels"]
    chosen = [
        spec["selector"]["matchLabels"],
        found["PodDisruptionBudget/spam"]["spec"]["selector"]["matchLabels"],
        found["NetworkPolicy/spam"]["spec"]["podSelector"]["matchLabels"],
        found["Service/spam"]["spec"]["selector"],
    ]
    for wanted in chosen:
        assert wanted.items() <= labels.items()
    static = workload == "StatefulSet"
    assert ("serviceName" in spec) == static
    client = found["ConfigMap/spam"]["data"]["client.properties"]
    assert ("group.instance.id=${POD_NAME}" in client) == static
    assert {manifest["kind"] for manifest in found.values()} == {
        "ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount", workload,
    }  # fmt: skip


def test_with_everything() -> None:
    found = rendered(EVERYTHING)
    spec = found["Deployment/spam"]["spec"]
    assert "replicas" not in spec  # they are KEDA's
    assert {"ScaledObject/spam", "ServiceMonitor/spam", "PrometheusRule/spam", "ConfigMap/spam-dashboard"} <= set(found)
    assert json.loads(found["ConfigMap/spam-dashboard"]["data"]["sluiceway.json"]) == DASHBOARD
    assert found["PrometheusRule/spam"]["spec"] == yaml.safe_load(ALERTS.read_text())
    scaled = found["ScaledObject/spam"]["spec"]
    assert scaled["scaleTargetRef"] == {"kind": "Deployment", "name": "spam"}
    assert scaled["maxReplicaCount"] == 12
    assert "CAREFUL" in (helm.CHART / "templates" / "NOTES.txt").read_text()
    assert "Egress" in found["NetworkPolicy/spam"]["spec"]["policyTypes"]
    container = pod(found)["containers"][0]
    assert container["image"].endswith("@sha256:" + "0" * 64)
    assert "--create-topics" in container["args"]
    assert {"name": "DEPTH", "value": "3"} in container["env"]


def test_containers_can_do_nothing_but_their_work() -> None:
    spec = pod(rendered({}))
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
    written = {volume["name"] for volume in spec["volumes"] if "emptyDir" in volume}
    mounted = {mount["name"] for mount in spec["containers"][0]["volumeMounts"] if not mount.get("readOnly")}
    assert written == mounted == {"kernels", "scratch"}
    assert all("sizeLimit" in volume["emptyDir"] for volume in spec["volumes"] if "emptyDir" in volume)


def test_it_is_asked_whether_it_lives_and_given_time_to_go() -> None:
    spec = pod(rendered({"restartAfterSeconds": 120}))
    [container] = spec["containers"]
    assert container["startupProbe"]["httpGet"] == container["livenessProbe"]["httpGet"] == {
        "path": "/healthz", "port": "metrics",
    }  # fmt: skip
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    alive = container["livenessProbe"]
    assert alive["periodSeconds"] * alive["failureThreshold"] == 120
    assert spec["terminationGracePeriodSeconds"] == 30
    assert container["ports"][0]["containerPort"] == 9464
    assert "--listen=0.0.0.0:9464" in container["args"]


def test_the_command_line_is_one_that_there_is() -> None:
    for verb in ("run", "apply", "join"):
        for more in ({}, EVERYTHING):
            [container] = pod(rendered({**more, "verb": verb}))["containers"]
            assert "command" not in container  # the image's entry point
            parses(container["args"])


def test_no_secret_is_in_a_manifest() -> None:
    """By reference only: there is no value in which one could be given."""
    found = rendered(EVERYTHING)
    [container] = pod(found)["containers"]
    [variable] = [each for each in container["env"] if each["name"] == "KAFKA_PASSWORD"]
    assert variable == {
        "name": "KAFKA_PASSWORD",
        "valueFrom": {"secretKeyRef": {"name": "kafka-user", "key": "password"}},
    }
    assert "sasl.password=${KAFKA_PASSWORD}" in found["ConfigMap/spam"]["data"]["client.properties"]
    assert not [name for name in found if name.startswith("Secret/")]
    with pytest.raises(Refused, match="may only name a variable"):
        template({"flow": FLOW, "kafka": {"sasl.password": "open sesame"}})
    with pytest.raises(Refused, match="may only name a variable"):
        template({"flow": FLOW, "kafka": {"ssl.key.password": "open sesame"}})


def test_values_that_cannot_be() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, "the flow's file is missing"),
        ({"flow": FLOW, "existingFlow": "mine"}, "which is it"),
        ({"flow": FLOW, "replica": 3}, "replica"),
        ({"flow": FLOW, "workload": "DaemonSet"}, "workload"),
        ({"flow": FLOW, "secrets": [{"name": "KAFKA_PASSWORD", "value": "open sesame"}]}, "secrets"),
        ({"flow": FLOW, "keda": {"enabled": True}}, "keda.bootstrapServers"),
        ({"flow": FLOW, "workload": "StatefulSet", **SCALED}, "static membership"),
    ]
    for values, told in refused:
        with pytest.raises(Refused, match=told):
            template(values)


def test_a_flow_of_another_map() -> None:
    found = rendered({"flow": "", "existingFlow": "mine"})
    assert list(found["ConfigMap/spam"]["data"]) == ["client.properties"]
    volumes = {volume["name"]: volume for volume in pod(found)["volumes"]}
    assert volumes["flow"]["configMap"]["name"] == "mine"


def test_another_file_begins_pods_anew() -> None:
    def checksum(**values: Any) -> str:
        annotations = rendered(values)["Deployment/spam"]["spec"]["template"]["metadata"]["annotations"]
        return str(annotations["checksum/configuration"])

    assert checksum() == checksum(replicas=5)
    assert len({checksum(), checksum(flow=FLOW + "\n# changed"), checksum(kafka={"client.rack": "a"})}) == 3


def test_the_release_is_that_of_the_program() -> None:
    chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]


def test_plain_manifests_are_up_to_date() -> None:
    pairs = helm.manifests()
    assert len(pairs) == 2
    for values, target in pairs:
        assert target.read_text() == helm.manifest(values), f"{target.name}: `make manifests`"
        for manifest in yaml.safe_load_all(target.read_text()):
            if manifest["kind"] in custom_resources.SCHEMAS:
                custom_resources.validate(manifest)
            else:
                kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)
