"""The trainers, a folder each; `trainer.ADAPTERS` lists them and loads them on use."""

__all__: list[str] = []
