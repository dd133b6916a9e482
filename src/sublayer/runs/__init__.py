"""The run: a folder with what was asked, what happened and the weights. Every tool reads and writes runs, nothing else.

RUN/
  run.json          what was asked: model, data, training; once it is there, the folder is a run
  environment.json  what the bits of the result depend on: processor, threads, versions
  tokenizer.json    what was learned from the text before training
  metrics.jsonl     what was measured, a line each; no clock in it
  clock.jsonl       how long it took, a line each
  processes.log     what PyTorch said while several processes trained, if it said anything
  diverged.json     why it ended early, if it was one of many that were trained together and its loss ran away
  checkpoints/
    00000200/       after so many steps: model, optimizer and carried state as safetensors, checkpoint.json with
                    their checksums
"""

from sublayer.runs.checkpoint import Checkpoint
from sublayer.runs.environment import environment
from sublayer.runs.lines import Lines
from sublayer.runs.run import Run, find

__all__ = ["Checkpoint", "Lines", "Run", "environment", "find"]
