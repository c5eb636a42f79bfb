"""What happens to the network between events: failures, new routes, the PFC watchdog, and the search for deadlocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled
from gpuyard.simulate.faults import Fault, LinkDown, NodeDown, SlowLink, Straggler, fault_links
from gpuyard.simulate.network import Network
from gpuyard.simulate.packet.build import PS_PER_S, with_routes
from gpuyard.simulate.packet.calendar import schedule
from gpuyard.simulate.packet.kernel import obey
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.settings import PacketSettings, Watchdog
from gpuyard.simulate.packet.state import NONE, PAUSE, RESUME, State, events, lines
from gpuyard.simulate.packet.switches import drop, release
from gpuyard.simulate.routes import routes_of

__all__ = ["Control", "Storm", "deadlock", "plan_control"]

Action = Callable[[State], State]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """A port that the watchdog found paused for too long."""

    link: int
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Control:
    """The actions to come, by time, and what the watchdog found."""

    network: Network
    settings: PacketSettings
    alive: npt.NDArray[np.bool_]
    actions: list[tuple[int, int, Action]] = field(default_factory=list)  # in order of time
    storms: list[Storm] = field(default_factory=list)
    calm_since: dict[int, int] = field(default_factory=dict)  # dropping link -> since when it is not paused

    def add(self, at_s: float, action: Action) -> None:
        """Plans an action."""
        if math.isfinite(at_s):
            self.actions.append((round(at_s * PS_PER_S), len(self.actions), action))

    def fail(self, links: npt.NDArray[np.int64]) -> Action:
        """Links stop carrying; what is queued for them is lost."""

        def _act(state: State) -> State:
            state.lines["down"][links] = 1
            self.alive[links] = False
            for link in links.tolist():
                _flush(state.head, link)
            return state

        return _act

    def mend(self, links: npt.NDArray[np.int64]) -> Action:
        """Links carry again."""

        def _act(state: State) -> State:
            state.lines["down"][links] = 0
            self.alive[links] = True
            for link in links.tolist():
                _kick(state.head, link)
            return state

        return _act

    def reroute(self, state: State) -> State:
        """The switches have learned which links are alive."""
        return with_routes(state, routes_of(self.network, up_down=self.settings.up_down, alive=self.alive))

    def slow(self, links: npt.NDArray[np.int64], ratio: float) -> Action:
        """Links change to a fraction of the rate that they have."""

        def _act(state: State) -> State:
            state.lines["ps_per_byte"][links] /= ratio
            return state

        return _act

    def watch(self, watchdog: Watchdog, state: State) -> None:
        """One look of the watchdog at all ports of switches."""
        now, rows = int(state.head["now"][0]), state.lines
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
    """The actions that the faults call for."""
    control = Control(network=network, settings=settings, alive=np.ones(network.link_count, dtype=np.bool_))
    for fault in faults:
        if isinstance(fault, LinkDown | NodeDown):
            links = fault_links(network, fault)
            control.add(fault.at_s, control.fail(links))
            control.add(fault.at_s + fault.reconverge_s, control.reroute)
            control.add(fault.until_s, control.mend(links))
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
    """A host's flows start so much later."""

    def _act(state: State) -> State:
        state.lags[host] += round(lag_s * PS_PER_S)
        return state

    return _act


def _storm(links: npt.NDArray[np.int64], kind: int) -> Action:
    """The senders of links are paused for good, or let go."""

    def _act(state: State) -> State:
        for link in links.tolist():
            _tell(state.head, link, kind)
        return state

    return _act


@compiled
def _tell(head: npt.NDArray[np.void], link: int, kind: int) -> None:
    """The sender of a link is told to stop or to go on."""
    obey(head[0], link, kind)


@compiled
def _kick(head: npt.NDArray[np.void], link: int) -> None:
    """A link looks for something to send."""
    s: Row = head[0]
    line = lines(s, link)
    if not line.pending:
        line.pending = 1
        schedule(s, link, max(line.free_at, s.now))


@compiled
def _flush(head: npt.NDArray[np.void], link: int) -> None:
    """Everything that is queued for a link is lost."""
    s: Row = head[0]
    line = lines(s, link)
    for queue in range(2):
        row = line.quick_head if queue else line.head
        while row != NONE:
            event = events(s, row)
            onward = event.next
            if event.link != NONE and not event.quick:
                release(s, event.bytes, event.link)
            drop(s, row, link)
            row = onward
    line.head = line.quick_head = NONE
    line.queued = 0


def deadlock(state: State) -> tuple[int, ...]:
    """Links that wait for each other in a circle: each is paused, and holds what the next must let go; or nothing."""
    rows = state.lines
    paused = set(np.flatnonzero(rows["paused"] & (rows["head"] != NONE)).tolist())
    waits: dict[int, set[int]] = {link: set() for link in paused}
    for link in paused:
        row = int(rows["head"][link])
        while row != NONE:
            came = int(state.events["link"][row])
            if came in paused:
                waits[came].add(link)  # it may go on when this link sends
            row = int(state.events["next"][row])
    return _circle(waits)


def _circle(waits: dict[int, set[int]]) -> tuple[int, ...]:
    """A circle of the graph, or nothing."""
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
