"""Tasks, a file each: data, a model, a training recipe, and how attacks aim at them."""

from fflbench.tasks.task import Task

__all__ = ["Task"]
