"""Tasks, one file each: data, a model, a training recipe, and the classes that attacks aim at."""

from fflbench.tasks.task import Task

__all__ = ["Task"]
