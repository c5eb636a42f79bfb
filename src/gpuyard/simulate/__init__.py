"""Does it hold: event simulations of serving, of flows and of failures. Each stands in a package of its own."""

__all__: list[str] = []
