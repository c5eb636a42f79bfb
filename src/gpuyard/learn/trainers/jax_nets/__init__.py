"""Networks in JAX: the same code on CPU, GPU and TPU, in one process or many."""

__all__: list[str] = []
