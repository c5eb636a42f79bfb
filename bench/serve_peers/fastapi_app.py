"""FastAPI: the request validated by pydantic, the answer a dictionary."""

from __future__ import annotations

from fastapi import FastAPI
from onnx_model import predict
from pydantic import BaseModel


class Tensor(BaseModel):
    """An input."""

    name: str
    shape: list[int]
    datatype: str
    data: list[float] | list[str]


class Ask(BaseModel):
    """A request."""

    inputs: list[Tensor]


app = FastAPI()


@app.post("/v2/models/m/infer")
async def infer(ask: Ask) -> dict[str, object]:
    """The answer."""
    found = predict({tensor.name: tensor.data for tensor in ask.inputs})
    data = [value for row in found for value in row]
    output = {"name": "probabilities", "datatype": "FP32", "shape": [len(found), 2], "data": data}
    return {"model_name": "m", "outputs": [output]}
