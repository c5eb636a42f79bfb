"""The user's own command: any program, any framework, with the distributed environment set."""

from gpuyard.learn.trainers.command.trainer import make

__all__ = ["make"]
