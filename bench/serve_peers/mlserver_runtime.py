"""MLServer: a runtime of one's own, as its guide shows."""

from __future__ import annotations

from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput
from onnx_model import predict


class OnnxModel(MLModel):
    """The model."""

    async def load(self) -> bool:
        """Nothing is left to load."""
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """The answer."""
        found = predict({tensor.name: tensor.data.root for tensor in payload.inputs})
        data = [value for row in found for value in row]
        output = ResponseOutput(
            name="probabilities", shape=[len(found), 2], datatype="FP32", data=data
        )
        return InferenceResponse(model_name=self.name, outputs=[output])
