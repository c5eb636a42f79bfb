"""Networks in PyTorch: one process or many (DDP, FSDP), on the CPU, CUDA or XLA."""

__all__: list[str] = []
