"""The run: a folder with the request, the metrics and the weights. Every tool reads and writes runs, nothing else.

RUN/
  run.json          the request: model, data, training; a folder with this file is a run
  environment.json  what the bits of the result depend on: processor, threads, versions
  tokenizer.json    the tokenizer, with what it learned from the text
  metrics.jsonl     losses and figures, a line each, without times
  clock.jsonl       training time at each of those lines
  processes.log     what PyTorch printed while several processes trained, if anything
  diverged.json     why it ended early, if it was one of many trainings and its loss diverged
  checkpoints/
    00000200/       after so many steps: model, optimizer and carried state as safetensors, checkpoint.json with
                    their checksums
"""

from sublayer.runs.checkpoint import Checkpoint
from sublayer.runs.environment import environment
from sublayer.runs.lines import Lines
from sublayer.runs.notes import Notes, Progress
from sublayer.runs.request import TrainingRequest
from sublayer.runs.run import Run, find

__all__ = ["Checkpoint", "Lines", "Notes", "Progress", "Run", "TrainingRequest", "environment", "find"]
