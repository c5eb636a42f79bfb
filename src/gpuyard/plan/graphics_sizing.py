"""Graphics sizing on one machine type: sessions and streams per GPU, and time per frame."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpuyard.catalog.chips import Chip
from gpuyard.catalog.graphics import GraphicsEngine
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.plan.limits import LimitViolation
from gpuyard.units import BYTES, DURATION, show
from gpuyard.workload.sections import Graphics
from gpuyard.workload.workload import Workload

PIXELS = {"1080p": 1920 * 1080, "1440p": 2560 * 1440, "4k": 3840 * 2160, "8k": 7680 * 4320}
FULL_HD = PIXELS["1080p"]  # resolution of the catalog's frame rates
DISPLAY_FRAMES_PER_S = 60.0  # default per display: the initial frame-rate limit of NVIDIA vGPUs
# vCPUs and host memory of a seat; True: more than one 4K display. The upper ends of NVIDIA's light
# user (4 vCPUs, 8 to 16 GB) and medium user (8 vCPUs, 16 to 32 GB): sizing guide for RTX vWS,
# table 9 (docs.nvidia.com/vgpu/sizing/virtual-workstation/latest/vdi-configurations.html,
# 2026-11-18). Which displays make a medium user is an assumption.
SEAT_VCPUS = {False: 4, True: 8}
SEAT_MEMORY_BYTES = {False: 16e9, True: 32e9}
# GPU memory of a seat where the file names none, as of NVIDIA's 4Q and 8Q profiles: an assumption,
# with the same split between light and medium users.
SEAT_GPU_BYTES = {False: 4e9, True: 8e9}
# Chrome Remote Desktop encodes on the CPU with libvpx, at 30 frames per second at most (Chromium,
# remoting/codec/webrtc_video_encoder_vpx.cc and kTargetFrameRate in remoting/base/constants.h). One
# vCPU for 1080p at 60 frames per second is an assumption: no published measurement was found.
CPU_FRAMES_PER_S = 30.0
ENCODED_PIXELS_PER_S = 1920 * 1080 * 60.0
VIDEO_FRAMES_PER_S = 30.0  # default per stream
USE_GRAPHICS_MACHINE = "use G2, G4 or N1+T4"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphicsCase:
    """Graphics work on one machine type."""

    workload: Workload
    graphics: Graphics
    machine: Machine
    chip: Chip
    engine: GraphicsEngine
    catalog: Catalog

    @property
    def share_ratio(self) -> float:
        """Fraction of a GPU, for machines with less than one."""
        return min(1.0, self.machine.chip_count)

    @property
    def gpu_count(self) -> float:
        """GPUs, or fractional GPUs, per machine."""
        return max(1.0, self.machine.chip_count)

    @property
    def memory_bytes(self) -> float:
        """Memory of one GPU or fractional GPU."""
        return self.chip.memory_bytes * self.share_ratio

    @property
    def pixel_count(self) -> int:
        """Pixels per display or stream."""
        return PIXELS[self.graphics.resolution or "1080p"]

    def violation(
        self, binding: str, what: str, fix: str = USE_GRAPHICS_MACHINE, ratio: float = math.inf
    ) -> LimitViolation:
        return LimitViolation(
            family=self.machine.series, binding=binding, ratio=ratio, what=what, fix=fix
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphicsSizing:
    """The fewest machines of one type that do the work, and the time of one step."""

    machine_count: int
    memory_bytes: float  # used per GPU
    reason: str
    frame_s: float | None = None  # None for a service
    licence_usd_per_hour: float = 0.0  # per machine
    host_vcpu_count: int | None = None  # of a host that is priced on its own

    def useful_s(self, frames_count: int, gpu_count: float) -> float | None:
        """Return the time to render the frames, in full rounds; None for a service."""
        return None if self.frame_s is None else math.ceil(frames_count / gpu_count) * self.frame_s


def size_graphics(case: GraphicsCase) -> GraphicsSizing | LimitViolation:
    """Size the work on the machine, or return why it is not possible."""
    if case.graphics.use == "virtual-workstation" and case.graphics.memory_bytes is None:
        seat = replace(case.graphics, memory_bytes=seat_gpu_bytes(case.graphics))
        case = replace(case, graphics=seat)
    needed = case.graphics.memory_bytes or 0.0
    if needed > case.memory_bytes:
        capacity = show(case.memory_bytes, BYTES)
        noun = NOUNS[case.graphics.use]
        return case.violation(
            "graphics.memory",
            f"one {noun} needs {show(needed, BYTES)} of GPU memory; the GPU has {capacity}",
            f"reduce memory to {capacity}, or allow GPUs with more",
            needed / case.memory_bytes,
        )
    return USES[case.graphics.use](case)


def _workstations(case: GraphicsCase) -> GraphicsSizing | LimitViolation:
    """Sessions per GPU, limited by memory, displays, pixels and the streaming encoders."""
    graphics, engine = case.graphics, case.engine
    onprem = case.workload.where.provider == "onprem"
    if (engine.display_count is None) if onprem else engine.vws != "yes":
        return case.violation(
            "graphics.use", f"{case.chip.label} does not support virtual workstations"
        )
    if not onprem and engine.vws_driver is None:
        what = f"no documented vWS driver supports {case.chip.label}"
        return case.violation("catalog.graphics", what)
    if not onprem and case.machine.vws_api_name is None:
        what = f"{case.machine.name} is not documented as a virtual workstation"
        share = case.share_ratio
        ratio = 1 / share if share < 1 else math.inf
        return case.violation("where.machines", what, _alternative(case), ratio)
    encoded = (engine.nvenc_count or 0) * (engine.stream_frames_per_s or 0.0) * case.share_ratio
    frame_rate = graphics.frame_rate_per_s or DISPLAY_FRAMES_PER_S
    displays_1080p = graphics.displays * case.pixel_count / FULL_HD
    bounds = {
        "memory": math.floor(case.memory_bytes / (graphics.memory_bytes or case.memory_bytes)),
        "displays": (engine.display_count or 0) // graphics.displays,
        "resolution": (engine.display_pixel_count or 0) // (graphics.displays * case.pixel_count),
        "frame_rate": math.floor(encoded / (displays_1080p * frame_rate)),
    }
    sizing = _sessions(case, {**bounds, **_host_bounds(case)}, engine.vws_usd_per_hour or 0.0)
    if isinstance(sizing, LimitViolation):
        return sizing
    seats = math.ceil((graphics.sessions_count or 1) / sizing.machine_count)
    return replace(sizing, host_vcpu_count=math.ceil(seats * _seat_vcpus(case)))


def seat_gpu_bytes(graphics: Graphics) -> float:
    """Return the GPU memory that is planned for a seat where the file names none."""
    return SEAT_GPU_BYTES[_is_heavy(graphics)]


def _seat_vcpus(case: GraphicsCase) -> float:
    """The vCPUs of one session, with its displays encoded on the CPU."""
    graphics = case.graphics
    pixels = graphics.displays * case.pixel_count
    frame_rate = min(graphics.frame_rate_per_s or CPU_FRAMES_PER_S, CPU_FRAMES_PER_S)
    encoding = (pixels - FULL_HD) * frame_rate / ENCODED_PIXELS_PER_S  # a seat includes one 1080p
    return (graphics.vcpus or SEAT_VCPUS[_is_heavy(case.graphics)]) + encoding


def _is_heavy(graphics: Graphics) -> bool:
    pixels = PIXELS[graphics.resolution or "1080p"]
    return graphics.displays * pixels > PIXELS["4k"]


def _host_bounds(case: GraphicsCase) -> dict[str, float]:
    """Sessions per GPU that the host's vCPUs and memory carry, with displays encoded on the CPU."""
    machine = case.machine
    memory_bytes = case.graphics.host_memory_bytes or SEAT_MEMORY_BYTES[_is_heavy(case.graphics)]
    bounds = {"host_memory": machine.memory_bytes / case.gpu_count / memory_bytes}
    threads = machine.vcpu_count or 2 * (machine.core_count or 0)
    if threads:
        bounds["vcpus"] = threads / case.gpu_count / _seat_vcpus(case)
    return bounds


def _alternative(case: GraphicsCase) -> str:
    """The smallest machine with the same chip that supports workstations, if any."""
    same = [
        row for row in case.catalog.machines if row.chip == case.machine.chip and row.vws_api_name
    ]
    return f"use {min(same, key=lambda row: row.chip_count).name}" if same else USE_GRAPHICS_MACHINE


def _video(case: GraphicsCase) -> GraphicsSizing | LimitViolation:
    """Streams per GPU, limited by encoders, decoders and memory."""
    graphics, engine = case.graphics, case.engine
    if engine.nvenc_count == 0:
        return case.violation("graphics.use", f"{case.chip.label} has no video encoder")
    encoders, decoders = engine.nvenc_count, engine.nvdec_count
    encode, decode = engine.encode_frames_per_s, engine.decode_frames_per_s
    if encoders is None or decoders is None or encode is None or decode is None:
        what = f"the video engines of {case.chip.label} are unknown"
        return case.violation(
            "catalog.graphics",
            what,
            f"add them to [graphics.{engine.name}] in your own catalog file",
        )
    # In 1080p frames per second.
    load = (graphics.frame_rate_per_s or VIDEO_FRAMES_PER_S) * case.pixel_count / FULL_HD
    engine_rate = min(encode, decode)
    if load > engine_rate:  # a stream runs on one engine
        highest = math.floor(engine_rate * FULL_HD / case.pixel_count)
        return case.violation(
            "graphics.frame_rate",
            f"a stream needs {load:.0f} 1080p frames per second; an engine does {engine_rate:.0f}",
            f"reduce frame_rate to {highest}fps, or the resolution",
            load / engine_rate,
        )
    rate = min(encoders * encode, decoders * decode) * case.share_ratio
    bounds = {"frame_rate": math.floor(rate / load)}
    if graphics.memory_bytes:
        bounds["memory"] = math.floor(case.memory_bytes / graphics.memory_bytes)
    return _sessions(case, bounds, 0.0)


def _sessions(
    case: GraphicsCase, bounds: Mapping[str, float], licence_usd_per_hour: float
) -> GraphicsSizing | LimitViolation:
    """As many machines as the sessions need at the tightest bound per GPU."""
    noun = NOUNS[case.graphics.use]
    tightest = min(bounds, key=lambda name: bounds[name])
    per_gpu = bounds[tightest]
    per_machine = math.floor(per_gpu * case.gpu_count + 1e-9)
    if per_machine < 1:
        return case.violation(
            f"graphics.{tightest}",
            f"one machine does not support one {noun}",
            f"reduce {tightest}, or {USE_GRAPHICS_MACHINE}",
            1.0 / max(per_gpu * case.gpu_count, 1e-3),
        )
    sessions = case.graphics.sessions_count or 1
    return GraphicsSizing(
        machine_count=math.ceil(sessions / per_machine),
        memory_bytes=(case.graphics.memory_bytes or 0.0) * per_machine / case.gpu_count,
        reason=f"{per_machine} {noun}{'s' if per_machine > 1 else ''} per machine, "
        f"limited by {tightest}",
        licence_usd_per_hour=licence_usd_per_hour * case.gpu_count,
    )


def _rendering(case: GraphicsCase) -> GraphicsSizing | LimitViolation:
    graphics = case.graphics
    assert graphics.frame_time_s, "the workload checks require frame_time"
    assert graphics.measured_on, "the workload checks require measured_on"
    measured_chip = case.catalog.chip(graphics.measured_on)
    measured_engine = next(
        (row for row in case.catalog.graphics if row.name == measured_chip.name), None
    )
    if (
        measured_engine
        and measured_engine.rt_core_generation
        and not case.engine.rt_core_generation
    ):
        return case.violation(
            "graphics.measured_on",
            f"measured with ray-tracing cores, which {case.chip.label} lacks",
        )
    slower = _slower_ratio(measured_chip, case.chip)
    if slower is None:
        return case.violation(
            "catalog.chips",
            f"the FP32 rate of {case.chip.label} or {measured_chip.label} is unknown",
            "add it",
        )
    frame_s = graphics.frame_time_s * slower / case.share_ratio
    return GraphicsSizing(
        machine_count=1,
        memory_bytes=graphics.memory_bytes or 0.0,
        reason=f"{show(frame_s, DURATION)} per frame, measured as "
        f"{show(graphics.frame_time_s, DURATION)} on {measured_chip.label}",
        frame_s=frame_s,
    )


def _slower_ratio(measured_chip: Chip, chip: Chip) -> float | None:
    """The larger of the FP32 and memory bandwidth ratios; None if a rate is unknown."""
    before, now = measured_chip.dense.fp32_flop_per_s, chip.dense.fp32_flop_per_s
    if before is None or now is None:
        return None
    return max(before / now, measured_chip.memory_bytes_per_s / chip.memory_bytes_per_s)


NOUNS = {"virtual-workstation": "session", "rendering": "frame", "video": "stream"}
USES: dict[str, Callable[[GraphicsCase], GraphicsSizing | LimitViolation]] = {
    "virtual-workstation": _workstations,
    "rendering": _rendering,
    "video": _video,
}
