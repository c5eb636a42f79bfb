"""Failures, reroutes, the PFC watchdog and deadlock detection between events."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuyard.jit import jit
from gpuyard.simulate.faults import Fault, LinkDown, NodeDown, SlowLink, Straggler, fault_links
from gpuyard.simulate.network import Network
from gpuyard.simulate.packet.build_state import PS_PER_S, with_routes
from gpuyard.simulate.packet.calendar import schedule
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.pfc import handle_pfc
from gpuyard.simulate.packet.settings import PacketSettings, WatchdogSettings
from gpuyard.simulate.packet.state import NONE, PAUSE, RESUME, PacketState, ports
from gpuyard.simulate.packet.switches import flush
from gpuyard.simulate.routes import routes_of

Action = Callable[[PacketState], PacketState]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """A port that the watchdog found paused for too long."""

    link: int
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Control:
    """Pending actions in order of time, and the ports that the watchdog reported."""

    network: Network
    settings: PacketSettings
    alive: npt.NDArray[np.bool_]
    actions: list[tuple[int, int, Action]] = field(default_factory=list)  # in order of time
    storms: list[Storm] = field(default_factory=list)
    calm_since: dict[int, int] = field(default_factory=dict)  # dropping link: unpaused since

    def add(self, at_s: float, action: Action) -> None:
        if math.isfinite(at_s):
            self.actions.append((round(at_s * PS_PER_S), len(self.actions), action))

    def fail(self, links: npt.NDArray[np.int64]) -> Action:
        """Fail links: packets queued for them are lost."""

        def _act(state: PacketState) -> PacketState:
            state.ports["down"][links] = 1
            self.alive[links] = False
            for link in links.tolist():
                _flush(state.head, link)
            return state

        return _act

    def repair(self, links: npt.NDArray[np.int64]) -> Action:
        def _act(state: PacketState) -> PacketState:
            state.ports["down"][links] = 0
            self.alive[links] = True
            for link in links.tolist():
                _kick(state.head, link)
            return state

        return _act

    def reroute(self, state: PacketState) -> PacketState:
        """Recompute routes over the links that are alive."""
        return with_routes(
            state, routes_of(self.network, up_down=self.settings.up_down, alive=self.alive)
        )

    def slow(self, links: npt.NDArray[np.int64], ratio: float) -> Action:
        """Multiply the rate of links by a ratio."""

        def _act(state: PacketState) -> PacketState:
            state.ports["ps_per_byte"][links] /= ratio
            return state

        return _act

    def watch(self, watchdog: WatchdogSettings, state: PacketState) -> None:
        """Poll all switch ports by the PFC watchdog."""
        now, rows = int(state.head["now"][0]), state.ports
        stuck = (rows["paused"] == 1) & (rows["from_host"] == 0) & (rows["dropping"] == 0)
        late = now - rows["paused_since"] >= watchdog.detect_s * PS_PER_S
        for link in np.flatnonzero(stuck & late & (rows["head"] != NONE)).tolist():
            rows["dropping"][link] = 1
            self.storms.append(Storm(link=link, at_s=now / PS_PER_S))
            _flush(state.head, link)
        for link in np.flatnonzero(rows["dropping"]).tolist():
            if rows["paused"][link]:
                self.calm_since.pop(link, None)
            elif now - self.calm_since.setdefault(link, now) >= watchdog.restore_s * PS_PER_S:
                rows["dropping"][link] = 0
                del self.calm_since[link]


def plan_control(network: Network, settings: PacketSettings, faults: tuple[Fault, ...]) -> Control:
    """Return the actions of the faults."""
    control = Control(
        network=network, settings=settings, alive=np.ones(network.link_count, dtype=np.bool_)
    )
    for fault in faults:
        if isinstance(fault, LinkDown | NodeDown):
            links = fault_links(network, fault)
            control.add(fault.at_s, control.fail(links))
            control.add(fault.at_s + fault.reconverge_s, control.reroute)
            control.add(fault.until_s, control.repair(links))
            control.add(fault.until_s + fault.reconverge_s, control.reroute)
        elif isinstance(fault, SlowLink):
            links = fault_links(network, fault)
            control.add(fault.at_s, control.slow(links, fault.rate_ratio))
            control.add(fault.until_s, control.slow(links, 1 / fault.rate_ratio))
        elif isinstance(fault, Straggler):
            host = network.node(fault.host)
            control.add(fault.at_s, _lag(host, fault.lag_s))
            control.add(fault.until_s, _lag(host, -fault.lag_s))
        else:
            links = np.flatnonzero(network.link_to == network.node(fault.host))
            control.add(fault.at_s, _storm(links, PAUSE))
            control.add(fault.until_s, _storm(links, RESUME))
    control.actions.sort(key=lambda action: action[:2])
    return control


def _lag(host: int, lag_s: float) -> Action:

    def _act(state: PacketState) -> PacketState:
        state.host_lags[host] += round(lag_s * PS_PER_S)
        return state

    return _act


def _storm(links: npt.NDArray[np.int64], kind: int) -> Action:
    """Pause or resume the senders of links."""

    def _act(state: PacketState) -> PacketState:
        for link in links.tolist():
            _notify(state.head, link, kind)
        return state

    return _act


@jit
def _notify(head: npt.NDArray[np.void], link: int, kind: int) -> None:
    """Pause or resume the sender of a link."""
    handle_pfc(head[0], link, kind)


@jit
def _kick(head: npt.NDArray[np.void], link: int) -> None:
    s: Row = head[0]
    port = ports(s, link)
    if not port.pending:
        port.pending = 1
        schedule(s, link, max(port.free_at, s.now))


@jit
def _flush(head: npt.NDArray[np.void], link: int) -> None:
    flush(head[0], link)


def deadlock(state: PacketState) -> tuple[int, ...]:
    """Return a cycle of paused links that wait for each other, or nothing."""
    rows = state.ports
    paused = set(np.flatnonzero(rows["paused"] & (rows["head"] != NONE)).tolist())
    waits: dict[int, set[int]] = {link: set() for link in paused}
    for link in paused:
        row = int(rows["head"][link])
        while row != NONE:
            came = int(state.events["link"][row])
            if came in paused:
                waits[came].add(link)  # it may go on when this link sends
            row = int(state.events["next"][row])
    return _cycle(waits)


def _cycle(waits: dict[int, set[int]]) -> tuple[int, ...]:
    gone: set[int] = set()
    for start in sorted(waits):
        trail: list[int] = []
        link = start
        while link not in gone and link not in trail:
            trail.append(link)
            onward = sorted(waits[link] - gone)
            if not onward:
                gone.add(link)
                trail.pop()
                if not trail:
                    break
                link = trail.pop()
            else:
                link = onward[0]
        if link in trail:
            return tuple(trail[trail.index(link) :])
    return ()
