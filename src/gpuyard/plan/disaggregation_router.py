"""Commands of the router in front of disaggregated prefill and decode pools."""

from __future__ import annotations

POOL_NOTE = (
    "$PREFILL and $DECODE are the host:port of every replica of the two pools, separated by "
    "spaces; all replicas need the same engine and NIXL release, and replicas on one machine "
    "need different ports"
)
_URLS = "$(printf -- '--prefill http://%s ' $PREFILL) $(printf -- '--decode http://%s ' $DECODE)"
# github.com/vllm-project/router; docs.sglang.io, advanced_features/router;
# TensorRT-LLM, features/disagg-serving
_COMMANDS = {
    "vllm": f"vllm-router --vllm-pd-disaggregation {_URLS} --host 0.0.0.0 --port 8000",
    "sglang": (
        f"python -m sglang_router.launch_router --pd-disaggregation {_URLS} "
        "--host 0.0.0.0 --port 8000"
    ),
    "tensorrt-llm": (
        "printf '%s\\n' 'hostname: 0.0.0.0' 'port: 8000' 'backend: pytorch' "
        '"context_servers: {{num_instances: {prefill_replicas}, urls: [${{PREFILL// /, }}]}}" '
        '"generation_servers: {{num_instances: {decode_replicas}, urls: [${{DECODE// /, }}]}}" '
        "> disagg.yaml && trtllm-serve disaggregated -c disagg.yaml"
    ),
}


def router_command(engine: str, prefill_replicas: int, decode_replicas: int) -> str:
    """Return the router command for an engine's pools."""
    line = _COMMANDS[engine]
    return (
        line.format(prefill_replicas=prefill_replicas, decode_replicas=decode_replicas)
        if "{prefill_replicas}" in line
        else line
    )
