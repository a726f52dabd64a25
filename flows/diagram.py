"""A flow as a Mermaid diagram, drawn from the dataflow itself: its steps, and the topics at its ends."""

from __future__ import annotations

from bytewax.dataflow import Dataflow
from bytewax.visualize import to_rendered

from sluiceway.flows.settings import Settings


def mermaid(flow: Dataflow, settings: Settings, inputs: tuple[str, ...] = ("instances",)) -> str:
    """Steps from left to right; `inputs` are the settings in `[topics]` that the flow reads."""
    rendered = to_rendered(flow)
    prefix = f"{rendered.flow_id}."
    steps = [step.step_id.removeprefix(prefix) for step in rendered.substeps]
    edges = [
        (port_id.removeprefix(prefix).partition(".")[0], name)
        for name, step in zip(steps, rendered.substeps, strict=True)
        for port in step.inp_ports
        for port_id in port.from_port_ids
    ]
    lines = ["flowchart LR"]
    lines += [f"    {_id(name)}[({_shown(name)})]" for name in (*inputs, *settings.outputs)]
    lines.append(f'    subgraph flow ["{rendered.flow_id}: a lane for each partition"]')
    lines += [f"        {before} --> {after}" for before, after in edges]
    lines.append("    end")
    lines += [f"    {_id(name)} --> {steps[0]}" for name in inputs]
    lines += [f"    {steps[-1]} --> {_id(name)}" for name in settings.outputs]
    return "\n".join(lines)


def _id(topic: str) -> str:
    return f"topic_{topic}"


def _shown(topic: str) -> str:
    return topic.replace("_", "-")
