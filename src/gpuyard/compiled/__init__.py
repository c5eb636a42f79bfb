"""Hot loops as machine code that is kept between runs; a process that finds it kept does not load the compiler."""

from gpuyard.compiled.loop import Loop, compiled, compiled_inline, compiled_within
from gpuyard.compiled.part import Recipe

__all__ = ["Loop", "Recipe", "compiled", "compiled_inline", "compiled_within"]
