"""What networks share whatever framework trains them: first weights, order of the data, the loop, the exports."""

__all__: list[str] = []
