"""Claims of the Feedback Transformer (Fan et al. 2020): tasks, what the memory is made of, depth, speed."""

from sublayer.reproduction.feedback import characters, speed, tasks

__all__ = ["characters", "speed", "tasks"]
