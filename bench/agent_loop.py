"""A NodeAgentAutoscaler at rest on a real control plane, driven by the real Metacontroller: what heartbeats cost."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bench.progress import say
from bench.rows import Hold, Row
from bench.stage import QUIET_SECONDS, Stage, measured, stage
from hooks.kube.metadata import JsonObject, name_of
from tests.e2e.agent_world import POOL, SHAPES, AgentWorld
from tests.e2e.controlplane import AuditRecord
from tests.e2e.drivers import USER

NODES, GROUPS, HEARTBEATS = 1000, 20, 2
CLIENTS = 4
NO_NODE = {"bench.example.com/no-node": "true"}
"""Asked for by the agent, so that the DaemonSet controller need not make a pod for every Node."""
TEMPLATE: JsonObject = {
    "spec": {
        "template": {
            "spec": {"nodeSelector": NO_NODE, "containers": [{"name": "agent", "image": "example.com/agent:1"}]}
        }
    }
}


@dataclass(frozen=True)
class Cost:
    """Of the heartbeats of all Nodes."""

    requests: int
    """To node-agent, customize and sync."""
    node_syncs: int
    writes: Sequence[AuditRecord]
    control: str
    """What a change that counts caused, seen in the same way."""


def heartbeats_at_rest(*, skip: bool) -> Sequence[Row]:
    nothing = Cost(requests=0, node_syncs=0, writes=[], control="")
    return measured(_measure, instead=_rows(nothing), skip=skip)


def _measure() -> Sequence[Row]:
    with stage() as ours:
        return _rows(Loop(ours).cost())


def _rows(cost: Cost) -> Sequence[Row]:
    whom = f"during {NODES * HEARTBEATS:,} heartbeats of {NODES:,} Nodes"
    to_others = [write for write in cost.writes if write.resource not in ("nodeshapes", "daemonsets")]
    return [
        Row(
            what=f"requests to node-agent {whom}, 1 NodeAgentAutoscaler at rest",
            yardstick=cost.control,
            measured=f"{cost.requests}, and {cost.node_syncs} of Nodes to node-shape",
            value=cost.requests,
            hold=Hold("at most", 0),
        ),
        Row(
            what="the same, writes to NodeShapes and DaemonSets",
            yardstick="",
            measured=f"{len(cost.writes) - len(to_others)}, and {len(to_others)} to all else",
            value=len(cost.writes) - len(to_others),
            hold=Hold("at most", 0),
        ),
    ]


class Loop:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.world = AgentWorld(stage.control_plane, stage.driver, stage.hooks, "bench")
        self.names = [f"node-{number:04}" for number in range(NODES)]

    def cost(self) -> Cost:
        self.stage.create_namespace(self.world.namespace)
        self._create_nodes()
        self._come_to_rest()
        mark, requests, node_syncs = self.stage.control_plane.mark(), self._requests(), self._node_syncs()
        for _ in range(HEARTBEATS):
            self._each(self.world.heartbeat)
        time.sleep(QUIET_SECONDS)  # what they cause may come a moment later
        say(f"node agent, {NODES * HEARTBEATS:,} heartbeats")
        requests, node_syncs = self._requests() - requests, self._node_syncs() - node_syncs
        writes = self.stage.control_plane.writes_since(mark, USER)
        return Cost(requests, node_syncs, writes, self._control())

    def _create_nodes(self) -> None:
        pools = {name: f"pool-{number % GROUPS}" for number, name in enumerate(self.names)}
        self._each(lambda name: self.world.node(name, pools[name]))
        say(f"node agent, {NODES:,} Nodes are there")
        self.world.until(self._are_shaped, "all NodeShapes", seconds=180)

    def _are_shaped(self) -> bool:
        shapes = self.stage.control_plane.admin.list(*SHAPES)
        return {name_of(shape) for shape in shapes if shape["spec"].get("allocatable")} == set(self.names)

    def _come_to_rest(self) -> None:
        self.world.autoscale(template=TEMPLATE)
        self.world.until(lambda: len(self.world.daemonsets()) == GROUPS, "the DaemonSets", seconds=60)
        self.world.until(self._is_running, "all groups to run", seconds=120)
        self.stage.await_quiet(lambda: self._requests() + self._node_syncs(), seconds=120)
        say(f"node agent, {GROUPS} DaemonSets are at rest")

    def _is_running(self) -> bool:
        groups = self.world.status().get("nodeGroups") or []
        return [group["reason"] for group in groups] == ["Running"] * GROUPS

    def _control(self) -> str:
        """A Node that moves to another group: without this, a count of nothing would prove nothing."""
        mark, before = self.stage.control_plane.mark(), self._requests()
        self.world.label(self.names[0], {POOL: "pool-1"})
        self.world.until(lambda: self.world.group("pool-1").get("nodes") == NODES // GROUPS + 1, "the larger group")
        self.stage.await_quiet(self._requests)
        writes = self.stage.control_plane.writes_since(mark, USER)
        shapes = sum(write.resource == "nodeshapes" for write in writes)
        return f"1 Node that moves to another group: {self._requests() - before}, and {shapes} to NodeShapes"

    def _requests(self) -> int:
        return self.stage.hooks.answered("node_agent")

    def _node_syncs(self) -> int:
        return self.stage.hooks.answered("node_shape")

    def _each(self, work: Callable[[str], None]) -> None:
        with ThreadPoolExecutor(CLIENTS) as clients:
            for done in [clients.submit(work, name) for name in self.names]:
                done.result()
