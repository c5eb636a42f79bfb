"""Encoders of images and sound in composite configs: their weights and the work of one image."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.catalog.huggingface.keys import ConfigKeys
from gpuyard.catalog.huggingface.roles import Role

CHANNELS = 3  # of an image


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """A transformer encoder without a vocabulary."""

    layers: int
    hidden: int
    heads: int
    ffn: int
    gated: bool
    patch: int | None = None
    image: int | None = None
    channels: int = CHANNELS
    patches: int | None = None

    @property
    def parameters(self) -> int:
        """Weights of the layers, the patches and their positions."""
        layer = 4 * self.hidden**2 + (3 if self.gated else 2) * self.hidden * self.ffn
        patches = (self.patch or 0) ** 2 * self.channels * self.hidden
        return self.layers * (layer + 4 * self.hidden) + patches + self.tokens * self.hidden

    @property
    def tokens(self) -> int:
        """Patches of an image of the trained size; 0 where it is not stated."""
        if self.patches:
            return self.patches
        return (self.image // self.patch) ** 2 if self.image and self.patch else 0

    @property
    def flop(self) -> float:
        """Forward FLOPs of one image: GEMMs and attention."""
        layer = 4 * self.hidden**2 + (3 if self.gated else 2) * self.hidden * self.ffn
        return float(
            2.0 * self.tokens * self.layers * layer
            + 4.0 * self.layers * self.tokens**2 * self.hidden
        )


def tower(config: ConfigKeys, strict: bool = False) -> Tower | None:
    """Return the encoder; None if sizes are missing, which are problems if `strict`."""
    layers, hidden = _layers(config), config.defaulted("hidden")
    heads = config.defaulted("heads")
    ffn = config.defaulted("ffn") or round((config.ratio("ffn_ratio") or 4) * (hidden or 0))
    patch, image = config.defaulted("patch"), config.defaulted("image")
    patches = None if config.given("image") else config.defaulted("patches")
    sizes: dict[Role, int | None] = {"layers": layers, "hidden": hidden}
    sizes |= {"patch": patch, "image": image or patches}
    if strict:
        for role, value in sizes.items():
            if not value:
                config.missing(config.name_of(role))
    if not layers or not hidden or (strict and config.problems):
        return None
    return Tower(
        layers=layers,
        hidden=hidden,
        heads=heads or max(1, hidden // 64),
        ffn=ffn,
        gated=config.info.gated and config.info.known and config.info.name != "",
        patch=patch,
        image=image,
        patches=patches,
        channels=config.defaulted("channels") or CHANNELS,
    )


def _layers(config: ConfigKeys) -> int | None:
    for name in ("encoder_layers", "depth"):
        if config.keys.get(name) is not None:
            return config.named(name)
    return config.defaulted("layers")
