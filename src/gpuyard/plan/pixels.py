"""How graphics lie on one machine type: sessions and streams of a GPU, and the time of a frame."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gpuyard.catalog import Catalog, Chip, GraphicsEngine, Machine
from gpuyard.plan.limits import Miss
from gpuyard.units import BYTES, DURATION, show
from gpuyard.workload import Graphics, Workload

__all__ = ["Fit", "Scene", "fit"]

PIXELS = {"1080p": 1920 * 1080, "1440p": 2560 * 1440, "4k": 3840 * 2160, "8k": 7680 * 4320}
FULL_HD = PIXELS["1080p"]  # the resolution of the catalog's frame rates
DISPLAY_FRAMES_PER_S = 60.0  # of a display, where none is given: the frame-rate limit that NVIDIA's vGPUs start with
VIDEO_FRAMES_PER_S = 30.0  # of a stream, where none is given
ELSEWHERE = "use G2, G4 or N1+T4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Graphics on one machine type."""

    workload: Workload
    graphics: Graphics
    machine: Machine
    chip: Chip
    engine: GraphicsEngine
    catalog: Catalog

    @property
    def share_ratio(self) -> float:
        """Of a GPU, where a machine has less than one."""
        return min(1.0, self.machine.chip_count)

    @property
    def gpu_count(self) -> float:
        """GPUs, or shares of one, of a machine."""
        return max(1.0, self.machine.chip_count)

    @property
    def memory_bytes(self) -> float:
        """Of one GPU, or of the share of one."""
        return self.chip.memory_bytes * self.share_ratio

    @property
    def pixel_count(self) -> int:
        """Of one display or stream."""
        return PIXELS[self.graphics.resolution or "1080p"]

    def no(self, binding: str, what: str, fix: str = ELSEWHERE, ratio: float = math.inf) -> Miss:
        """A machine that cannot do it."""
        return Miss(family=self.machine.series, binding=binding, ratio=ratio, what=what, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The work on one machine type: the fewest machines that do, and what one step of it takes."""

    machine_count: int
    memory_bytes: float  # used on one GPU
    reason: str
    frame_s: float | None = None  # None: a service, which has no end
    licence_usd_per_hour: float = 0.0  # of one machine

    def useful_s(self, frames_count: int, gpu_count: float) -> float | None:
        """The time of the frames on that many GPUs, in whole rounds; None of a service."""
        return None if self.frame_s is None else math.ceil(frames_count / gpu_count) * self.frame_s


def fit(scene: Scene) -> Fit | Miss:
    """How the use lies on the machine, or why it cannot."""
    wanted = scene.graphics.memory_bytes or 0.0
    if wanted > scene.memory_bytes:
        held, noun = show(scene.memory_bytes, BYTES), NOUNS[scene.graphics.use]
        return scene.no(
            "graphics.memory",
            f"one {noun} needs {show(wanted, BYTES)} of GPU memory; a GPU here has {held}",
            f"lower memory to {held}, or allow GPUs with more",
            wanted / scene.memory_bytes,
        )
    return USES[scene.graphics.use](scene)


def _workstations(scene: Scene) -> Fit | Miss:
    """Sessions of a GPU: by memory, displays, pixels, and the encoders that send the picture."""
    graphics, engine = scene.graphics, scene.engine
    own = scene.workload.where.provider == "onprem"
    if (engine.display_count is None) if own else engine.vws != "yes":
        return scene.no("graphics.use", f"{scene.chip.label} has no virtual workstations")
    if not own and engine.vws_driver is None:
        what = f"no source tells which driver for workstations still serves {scene.chip.label}"
        return scene.no("catalog.graphics", what)
    if not own and scene.machine.vws_api_name is None:
        what = f"no source tells that {scene.machine.name} can be had as a virtual workstation"
        share = scene.share_ratio
        return scene.no("where.machines", what, _whole(scene), 1 / share if share < 1 else math.inf)
    encoded = (engine.nvenc_count or 0) * (engine.stream_frames_per_s or 0.0) * scene.share_ratio
    asked = (
        graphics.displays
        * scene.pixel_count / FULL_HD                              # in displays of 1080p
        * (graphics.frame_rate_per_s or DISPLAY_FRAMES_PER_S)
    )  # fmt: skip
    bounds = {
        "memory": math.floor(scene.memory_bytes / graphics.memory_bytes) if graphics.memory_bytes else 1,
        "displays": (engine.display_count or 0) // graphics.displays,
        "resolution": (engine.display_pixel_count or 0) // (graphics.displays * scene.pixel_count),
        "frame_rate": math.floor(encoded / asked),
    }
    return _sessions(scene, bounds, engine.vws_usd_per_hour or 0.0)


def _whole(scene: Scene) -> str:
    """The machines that can, of the same chip where there are some."""
    same = [row for row in scene.catalog.machines if row.chip == scene.machine.chip and row.vws_api_name]
    return f"use {min(same, key=lambda row: row.chip_count).name}" if same else ELSEWHERE


def _video(scene: Scene) -> Fit | Miss:
    """Streams of a GPU: by its encoders, its decoders and its memory."""
    graphics, engine = scene.graphics, scene.engine
    if engine.nvenc_count == 0:
        return scene.no("graphics.use", f"{scene.chip.label} has no video encoder")
    encoders, decoders = engine.nvenc_count, engine.nvdec_count
    encode, decode = engine.encode_frames_per_s, engine.decode_frames_per_s
    if encoders is None or decoders is None or encode is None or decode is None:
        what = f"no source tells the video engines of {scene.chip.label}"
        return scene.no("catalog.graphics", what, f"add them to [graphics.{engine.name}] in a catalog file of your own")
    load = (graphics.frame_rate_per_s or VIDEO_FRAMES_PER_S) * scene.pixel_count / FULL_HD  # 1080p frames a second
    engine_rate = min(encode, decode)
    if load > engine_rate:  # a stream runs on one engine, however many there are
        return scene.no(
            "graphics.frame_rate",
            f"a stream asks for {load:.0f} frames of 1080p a second; one engine does {engine_rate:.0f}",
            f"lower frame_rate to {math.floor(engine_rate * FULL_HD / scene.pixel_count)}fps, or the resolution",
            load / engine_rate,
        )
    rate = min(encoders * encode, decoders * decode) * scene.share_ratio
    bounds = {"frame_rate": math.floor(rate / load)}
    if graphics.memory_bytes:
        bounds["memory"] = math.floor(scene.memory_bytes / graphics.memory_bytes)
    return _sessions(scene, bounds, 0.0)


def _sessions(scene: Scene, bounds: dict[str, int], licence_usd_per_hour: float) -> Fit | Miss:
    """As many machines as the sessions need; a GPU takes as many as its tightest bound lets it."""
    noun = NOUNS[scene.graphics.use]
    tightest = min(bounds, key=lambda name: bounds[name])
    per_gpu = bounds[tightest]
    if per_gpu < 1:
        return scene.no(
            f"graphics.{tightest}", f"a GPU here does not do one {noun}", f"lower {tightest}, or {ELSEWHERE}"
        )
    wanted = scene.graphics.sessions_count or 1
    return Fit(
        machine_count=math.ceil(wanted / math.floor(per_gpu * scene.gpu_count)),
        memory_bytes=(scene.graphics.memory_bytes or 0.0) * per_gpu,
        reason=f"{per_gpu} {noun}{'s' if per_gpu > 1 else ''} a GPU, bound by {tightest}",
        licence_usd_per_hour=licence_usd_per_hour * scene.gpu_count,
    )


def _rendering(scene: Scene) -> Fit | Miss:
    """Frames shared out over all GPUs."""
    graphics = scene.graphics
    assert graphics.frame_time_s, "the checks of a rendering workload ask for it"
    assert graphics.measured_on, "and for this"
    timed_on = scene.catalog.chip(graphics.measured_on)
    timed_engine = next((row for row in scene.catalog.graphics if row.name == timed_on.name), None)
    if timed_engine and timed_engine.rt_core_generation and not scene.engine.rt_core_generation:
        return scene.no("graphics.measured_on", f"timed on ray-tracing cores, which {scene.chip.label} has not")
    slower = _slower_ratio(timed_on, scene.chip)
    if slower is None:
        return scene.no("catalog.chips", f"no FP32 rate of {scene.chip.label} or {timed_on.label} is known", "add it")
    frame_s = graphics.frame_time_s * slower / scene.share_ratio
    return Fit(
        machine_count=1,
        memory_bytes=graphics.memory_bytes or 0.0,
        reason=f"a frame takes {show(frame_s, DURATION)}, {show(graphics.frame_time_s, DURATION)} on {timed_on.label}",
        frame_s=frame_s,
    )


def _slower_ratio(timed_on: Chip, chip: Chip) -> float | None:
    """How much longer a frame takes: by arithmetic or by memory, whichever is worse; None if a rate is not known."""
    before, now = timed_on.dense.fp32_flop_per_s, chip.dense.fp32_flop_per_s
    if before is None or now is None:
        return None
    return max(before / now, timed_on.memory_bytes_per_s / chip.memory_bytes_per_s)


NOUNS = {"virtual-workstation": "session", "rendering": "frame", "video": "stream"}
USES: dict[str, Callable[[Scene], Fit | Miss]] = {
    "virtual-workstation": _workstations,
    "rendering": _rendering,
    "video": _video,
}
