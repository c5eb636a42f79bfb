"""The verbs: what each command does, as functions that a Python program can call too."""

# One module a verb, imported by its name: one verb need not load what another does.
__all__: list[str] = []
