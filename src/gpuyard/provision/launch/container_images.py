"""Default container images of frameworks and engines."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpuyard.catalog.rows import Source
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file

PATH = Path(__file__).parent / "data" / "container_images.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    """Default container image of a framework or engine."""

    name: str
    image: str
    source: tuple[str, ...]
    arm: Annotated[bool, Doc("also built for Arm hosts")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageList:
    """Contents of container_images.toml."""

    sources: tuple[Source, ...]
    images: tuple[ContainerImage, ...]

    def image(self, name: str) -> ContainerImage:
        """Return the image of a framework or engine."""
        return next(row for row in self.images if row.name == name)


@functools.cache
def read_images() -> ImageList:
    """Return the images that ship with gpuyard."""
    return decode(read_file(PATH).root, ImageList, Keys.SUFFIXED)
