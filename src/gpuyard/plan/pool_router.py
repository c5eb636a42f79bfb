"""The program between clients and two pools, one that reads prompts and one that writes: its command line."""

from __future__ import annotations

__all__ = ["POOL_NOTE", "router"]

POOL_NOTE = (
    "$PREFILL and $DECODE list host:port of every replica of the two pools, with blanks between; every replica needs "
    "the same release of engine and NIXL, and a port of its own where machines hold several"
)
_URLS = "$(printf -- '--prefill http://%s ' $PREFILL) $(printf -- '--decode http://%s ' $DECODE)"
# github.com/vllm-project/router; docs.sglang.io, advanced_features/router; TensorRT-LLM, features/disagg-serving
_COMMANDS = {
    "vllm": f"vllm-router --vllm-pd-disaggregation {_URLS} --host 0.0.0.0 --port 8000",
    "sglang": f"python -m sglang_router.launch_router --pd-disaggregation {_URLS} --host 0.0.0.0 --port 8000",
    "tensorrt-llm": (
        "printf '%s\\n' 'hostname: 0.0.0.0' 'port: 8000' 'backend: pytorch' "
        '"context_servers: {{num_instances: {readers}, urls: [${{PREFILL// /, }}]}}" '
        '"generation_servers: {{num_instances: {writers}, urls: [${{DECODE// /, }}]}}" '
        "> disagg.yaml && trtllm-serve disaggregated -c disagg.yaml"
    ),
}


def router(engine: str, readers: int, writers: int) -> str:
    """The command of the router for an engine's pools."""
    line = _COMMANDS[engine]
    return line.format(readers=readers, writers=writers) if "{readers}" in line else line
