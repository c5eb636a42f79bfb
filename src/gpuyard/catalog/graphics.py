"""Graphics capabilities of chips: ray tracing, video engines, virtual workstations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.catalog.machines import YesNo
from gpuyard.catalog.rows import HourlyPrice, SourceNames
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.units import RATE


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphicsEngine:
    """Graphics capabilities of a chip; frame rates are per engine at 1080p, 8 bit, H.264."""

    name: Annotated[str, Doc("a name under chips")]
    source: SourceNames
    rt_core_generation: Annotated[int | None, AtLeast(0), Doc("0: no ray-tracing cores")] = None
    rt_core_count: Annotated[int | None, AtLeast(0)] = None
    nvenc_count: Annotated[int | None, AtLeast(0), Doc("video encoders; 0: none")] = None
    nvdec_count: Annotated[int | None, AtLeast(0), Doc("video decoders")] = None
    encode_frames_per_s: Annotated[
        float | None, RATE, Doc("high quality: preset P5, variable bit rate")
    ] = None
    stream_frames_per_s: Annotated[
        float | None, RATE, Doc("low latency: preset P3, constant bit rate")
    ] = None
    decode_frames_per_s: Annotated[float | None, RATE] = None
    vws: Annotated[
        YesNo | None, Doc("Google rents it with a virtual workstation (vWS) licence")
    ] = None
    vws_usd_per_hour: Annotated[HourlyPrice | None, Doc("price of the vWS licence per GPU")] = None
    vws_driver: Annotated[
        str | None,
        Doc("NVIDIA vGPU software release that supports it there; null: not documented"),
    ] = None
    display_count: Annotated[int | None, AtLeast(1), Doc("displays per virtual workstation")] = None
    display_pixel_count: Annotated[
        int | None, AtLeast(1), Doc("pixels of all displays together")
    ] = None
    note: str = ""
