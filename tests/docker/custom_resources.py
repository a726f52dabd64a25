"""What the custom resources of the chart may hold: from their projects' references, as far as they are used."""

from __future__ import annotations

from typing import Any

import jsonschema

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "minLength": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
DURATION: Schema = {"type": "string", "pattern": r"^(\d+(ms|[smhdwy]))+$"}
TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
SELECTOR: Schema = {"type": "object", "properties": {"matchLabels": TEXTS}, "additionalProperties": False}


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item, "minItems": 1}


def _resource(version: str, kind: str, spec: Schema) -> Schema:
    metadata = _object(("name", "labels"), name=TEXT, labels=TEXTS, annotations=TEXTS, namespace=TEXT)
    return _object(
        ("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": version},
        kind={"const": kind},
        metadata=metadata,
        spec=spec,
    )


SERVICE_MONITOR = _resource(
    "monitoring.coreos.com/v1",
    "ServiceMonitor",
    _object(
        ("selector", "endpoints"),
        selector=SELECTOR,
        endpoints=_list(_object(("port",), port=TEXT, path=TEXT, interval=DURATION)),
    ),
)
_RULE: Schema = {
    **_object(("expr",), alert=TEXT, record=TEXT, expr=TEXT, labels=TEXTS, annotations=TEXTS, **{"for": DURATION}),
    "oneOf": [{"required": ["alert"]}, {"required": ["record"]}],
}
PROMETHEUS_RULE = _resource(
    "monitoring.coreos.com/v1",
    "PrometheusRule",
    _object(("groups",), groups=_list(_object(("name", "rules"), name=TEXT, interval=DURATION, rules=_list(_RULE)))),
)
_SCALING = _object(
    stabilizationWindowSeconds={"type": "integer", "minimum": 0, "maximum": 3600},
    policies=_list(
        _object(
            ("type", "value", "periodSeconds"),
            type={"enum": ["Pods", "Percent"]},
            value={"type": "integer", "minimum": 1},
            periodSeconds={"type": "integer", "minimum": 1, "maximum": 1800},
        )
    ),
)
SCALED_OBJECT = _resource(
    "keda.sh/v1alpha1",
    "ScaledObject",
    _object(
        ("scaleTargetRef", "triggers"),
        scaleTargetRef=_object(("name",), apiVersion=TEXT, kind={"enum": ["Deployment", "StatefulSet"]}, name=TEXT),
        minReplicaCount=COUNT,
        maxReplicaCount=COUNT,
        pollingInterval=COUNT,
        cooldownPeriod=COUNT,
        advanced=_object(
            horizontalPodAutoscalerConfig=_object(name=TEXT, behavior=_object(scaleUp=_SCALING, scaleDown=_SCALING))
        ),
        triggers=_list(
            _object(
                ("type", "metadata"),
                type={"const": "kafka"},
                name=TEXT,
                metadata={**TEXTS, "required": ["bootstrapServers", "consumerGroup", "topic", "lagThreshold"]},
                authenticationRef=_object(("name",), name=TEXT),
            )
        ),
    ),
)
SCHEMAS = {"ServiceMonitor": SERVICE_MONITOR, "PrometheusRule": PROMETHEUS_RULE, "ScaledObject": SCALED_OBJECT}


def validate(manifest: Schema) -> None:
    jsonschema.validate(manifest, SCHEMAS[manifest["kind"]])
