"""BentoML: a service whose method takes the protocol's inputs."""

from __future__ import annotations

import bentoml
from onnx_model import predict
from pydantic import BaseModel


class Tensor(BaseModel):
    """An input."""

    name: str
    shape: list[int]
    datatype: str
    data: list[float] | list[str]


@bentoml.service(workers=1)
class Onnx:
    """The model."""

    @bentoml.api
    async def infer(self, inputs: list[Tensor]) -> dict:  # type: ignore[type-arg]
        """The answer."""
        return {"probabilities": predict({tensor.name: tensor.data for tensor in inputs})}
