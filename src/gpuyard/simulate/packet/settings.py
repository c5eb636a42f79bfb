"""Settings of the packet engine: buffers, PFC, ECN, DCQCN, load balancing, forwarding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuyard.errors import InputError, Problem

Balance = Literal["ecmp", "spray", "adaptive", "flowlet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PfcSettings:
    """PFC threshold: static, or `alpha_ratio` times the free buffer."""

    xoff_bytes: int = 150 * 4096
    xon_bytes: int = 120 * 4096
    alpha_ratio: float | None = (
        None  # dynamic threshold; XOFF less XON is then the gap for resuming
    )
    headroom_bytes: int | None = None  # of every link; None: what its delay and rate need
    frame_delay_s: float = 0.0  # what making and obeying a pause frame takes, on top of the cable


@dataclass(frozen=True, slots=True, kw_only=True)
class EcnSettings:
    """RED marking on dequeue: never below kmin, always above kmax, linear up to pmax between."""

    kmin_bytes: int
    kmax_bytes: int
    pmax_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DcqcnSettings:
    """DCQCN constants; defaults of Zhu et al., SIGCOMM 2015, table 14 and section 5."""

    g_ratio: float = 1 / 256
    initial_alpha_ratio: float = 1.0
    alpha_timer_s: float = 55e-6
    increase_timer_s: float = 55e-6
    increase_bytes: int | None = 10_000_000  # None: no byte counter
    fast_recovery_count: int = 5
    additive_bits_per_s: float = 40e6
    hyper_bits_per_s: float = 400e6
    minimum_bits_per_s: float = 100e6
    cnp_interval_s: float = 50e-6  # a receiver notifies a flow no more often
    decrease_interval_s: float = 0.0  # a source cuts a flow no more often


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogSettings:
    """PFC watchdog: drops at a port paused for `detect_s` until unpaused for `restore_s`."""

    detect_s: float
    restore_s: float
    poll_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketSettings:
    """Everything about the engine that is not the network, the traffic or a failure."""

    payload_bytes: int = 4096
    header_bytes: int = 64
    ack_bytes: int = 64
    cell_count: int = 1  # packets simulated as one: coarser and faster
    burst_count: int = 4  # packets sent in one event: the later ones leave the buffer early
    buffer_bytes: int | None = None  # of every switch; None: no limit
    pfc: PfcSettings | None = PfcSettings()
    lossy_alpha_ratio: float = 1.0  # without PFC: a queue may hold this times the free buffer
    ecn: EcnSettings | None = None
    dcqcn: DcqcnSettings | None = None
    window_bytes: int | None = None  # None: a source does not wait for acknowledgements
    balance: Balance = "ecmp"
    flowlet_gap_s: float = 10e-6
    flowlet_table_count: int = 65536
    polarised: bool = False  # every switch hashes alike
    up_down: bool = True
    # Acknowledgements take a delay, or travel in the data queues or in their own class; "final":
    # only those that end a flow travel (in the data queues), which gives almost the same completion
    # times for a third of the CPU time.
    acks: Literal["delayed", "final", "queued", "quick"] = "delayed"
    done: Literal["received", "acknowledged"] = "received"
    forwarding: Literal["store-and-forward", "cut-through"] = "store-and-forward"
    retransmit_timeout_s: float = 1e-3
    retry_count: int = 7  # timeouts in a row before a flow fails: the maximum of RoCE's 3-bit field
    watchdog: WatchdogSettings | None = None
    end_s: float | None = None  # stop there, finished or not
    seed: int = 1

    def check(self) -> None:
        """Raises InputError with everything that does not go together."""
        if problems := [
            Problem(where=f"packet settings: {where}", what=what, fix=fix)
            for wrong, where, what, fix in _rules(self)
            if wrong
        ]:
            raise InputError(problems)


def _rules(settings: PacketSettings) -> tuple[tuple[bool, str, str, str], ...]:
    """What may be wrong: the test, where, what and the fix."""
    pfc, ecn, dcqcn = settings.pfc, settings.ecn, settings.dcqcn
    return (
        (
            min(settings.payload_bytes, settings.cell_count, settings.burst_count) < 1,
            "payload",
            "no payload, cell or burst",
            "give at least 1 of each",
        ),
        (
            settings.payload_bytes * settings.cell_count > 2**24,
            "cell_count",
            "a cell of more than 16 MiB",
            "use fewer packets a cell",
        ),
        (
            pfc is not None and pfc.xon_bytes >= pfc.xoff_bytes,
            "pfc",
            "XON is not below XOFF",
            "lower xon_bytes",
        ),
        (
            pfc is not None and pfc.alpha_ratio is not None and settings.buffer_bytes is None,
            "pfc",
            "a dynamic threshold of an unlimited buffer",
            "give buffer_bytes",
        ),
        (
            pfc is None and settings.buffer_bytes is None,
            "buffer",
            "no PFC and no limit",
            "give buffer_bytes, or PFC",
        ),
        (
            ecn is not None and not 0 <= ecn.kmin_bytes < ecn.kmax_bytes,
            "ecn",
            "kmin is not below kmax",
            "raise kmax_bytes",
        ),
        (
            ecn is not None and not 0 <= ecn.pmax_ratio <= 1,
            "ecn",
            "pmax outside 0 to 1",
            "give a probability",
        ),
        (dcqcn is not None and ecn is None, "dcqcn", "nothing marks packets", "give ecn"),
        (
            dcqcn is not None
            and min(dcqcn.alpha_timer_s, dcqcn.increase_timer_s, dcqcn.minimum_bits_per_s) <= 0,
            "dcqcn",
            "a timer or a rate that is not positive",
            "give timers in seconds and a minimum rate",
        ),
        (
            settings.retransmit_timeout_s <= 0,
            "retransmit_timeout",
            "not positive",
            "give it in seconds, above the round trip",
        ),
    )


# As csg-htsim's htsim_roce behaves: PFC at 150 and 120 packets, line-rate senders, answers in the
# data queues.
HTSIM_ROCE = PacketSettings(acks="queued", done="acknowledged")
