"""What chips can do with pixels: ray tracing, video engines, virtual workstations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.machines import Answer
from gpuyard.catalog.rows import HourlyPrice, SourceNames
from gpuyard.document import AtLeast, Doc
from gpuyard.units import RATE

__all__ = ["GraphicsEngine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphicsEngine:
    """The graphics side of one chip. Frame rates are of one engine at 1080p, 8 bit, H.264."""

    name: Annotated[str, Doc("a name under chips")]
    source: SourceNames
    rt_core_generation: Annotated[int | None, AtLeast(0), Doc("0: it has no ray-tracing cores")] = None
    rt_core_count: Annotated[int | None, AtLeast(0)] = None
    nvenc_count: Annotated[int | None, AtLeast(0), Doc("video encoders; 0: none")] = None
    nvdec_count: Annotated[int | None, AtLeast(0), Doc("video decoders")] = None
    encode_frames_per_s: Annotated[float | None, RATE, Doc("high quality: preset P5, variable bit rate")] = None
    stream_frames_per_s: Annotated[float | None, RATE, Doc("low latency: preset P3, constant bit rate")] = None
    decode_frames_per_s: Annotated[float | None, RATE] = None
    vws: Annotated[Answer | None, Doc("whether Google rents it with a licence for virtual workstations")] = None
    vws_usd_per_hour: Annotated[HourlyPrice | None, Doc("that licence, for one GPU")] = None
    vws_driver: Annotated[
        str | None, Doc("the release of NVIDIA's vGPU software that serves it there; none: no source tells one")
    ] = None
    display_count: Annotated[int | None, AtLeast(1), Doc("displays of one virtual workstation")] = None
    display_pixel_count: Annotated[int | None, AtLeast(1), Doc("pixels of all its displays together")] = None
    note: str = ""
