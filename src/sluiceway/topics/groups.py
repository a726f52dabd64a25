"""Consumer groups from outside: who is a member, and removing them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation, AdminClient, ConsumerGroupDescription

from sluiceway.errors import FlowError
from sluiceway.topics import kafka


class Member(NamedTuple):
    """Of a consumer group, as the broker sees it."""

    host: str
    client: str
    lanes: tuple[int, ...]
    """The partitions that it has."""


def members(bootstrap: str, config: kafka.Config, group: str) -> list[Member]:
    """None are in a group that does not exist."""
    try:
        found = _described(kafka.new_admin(bootstrap, config), group)
    except KafkaException as problem:
        if problem.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return []
        reason = kafka.sentence(problem)
        raise FlowError(f"the broker does not describe the consumer group {group!r}: {reason}") from None
    return [
        Member(
            member.host.lstrip("/"),
            member.client_id,
            tuple(sorted(place.partition for place in member.assignment.topic_partitions)) if member.assignment else (),
        )
        for member in found.members
    ]


def _described(admin: AdminClient, group: str, *, operations: bool = False) -> ConsumerGroupDescription:
    """Asked again while the group's coordinator is being found."""
    deadline = time.monotonic() + kafka.ANSWER_SECONDS
    while True:
        try:
            asked = admin.describe_consumer_groups(
                [group], include_authorized_operations=operations, request_timeout=kafka.ANSWER_SECONDS
            )
            found: ConsumerGroupDescription = asked[group].result()
            return found
        except KafkaException as problem:
            if problem.args[0].code() not in kafka.MOVING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def refuse_unreadable(bootstrap: str, config: kafka.Config, group: str, what_for: str) -> None:
    """READ is what a member needs, and whoever commits offsets. Of a group that does not exist yet a broker says no
    more than whether it may be described."""
    admin = kafka.new_admin(bootstrap, config)
    denial = f"the broker denies this client READ of the consumer group {group!r}, {what_for}"
    try:
        found = _described(admin, group, operations=True)
    except KafkaException as problem:
        code = problem.args[0].code()
        if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise FlowError(denial) from None
        if code == KafkaError.GROUP_ID_NOT_FOUND:
            return
        reason = kafka.sentence(problem)
        raise FlowError(f"the broker does not describe the consumer group {group!r}: {reason}") from None
    allowed = found.authorized_operations
    if allowed and AclOperation.READ not in allowed:  # a broker without an authorizer reports none at all
        raise FlowError(denial)


def existing(bootstrap: str, config: kafka.Config, groups: Sequence[str]) -> list[str]:
    """Which of these there are."""
    admin = kafka.new_admin(bootstrap, config)  # kept until the answer has come: without its client it would be empty
    try:
        asked = admin.list_consumer_groups(request_timeout=kafka.ANSWER_SECONDS)
        known = {group.group_id for group in asked.result().valid}
    except KafkaException as problem:
        raise FlowError(f"the broker does not list its consumer groups: {kafka.sentence(problem)}") from None
    return [group for group in groups if group in known]


def remove(bootstrap: str, config: kafka.Config, groups: Sequence[str]) -> None:
    if not groups:
        return
    admin = kafka.new_admin(bootstrap, config)
    asked = admin.delete_consumer_groups(list(groups), request_timeout=kafka.ANSWER_SECONDS)
    for group, outcome in asked.items():
        try:
            outcome.result()
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise FlowError(f"the consumer group {group!r} is not removed: {kafka.sentence(problem)}") from None
