"""Ray Serve: one replica behind its own proxy."""

from __future__ import annotations

import signal
import sys

import ray
from ray import serve
from starlette.requests import Request


@serve.deployment(num_replicas=1, max_ongoing_requests=128)
class Onnx:
    """The model."""

    def __init__(self) -> None:
        from onnx_model import predict

        self.predict = predict

    async def __call__(self, request: Request) -> dict[str, object]:
        """The answer."""
        body = await request.json()
        return {
            "probabilities": self.predict(
                {tensor["name"]: tensor["data"] for tensor in body["inputs"]}
            )
        }


ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
serve.run(Onnx.bind(), route_prefix="/m")
signal.pause()
