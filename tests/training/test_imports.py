"""Inference, generation and evaluation do not import the trainer."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["sublayer.trained", "sublayer.evaluation", "sublayer.generation", "sublayer.runs"])
def test_the_trainer_is_not_imported(module):
    code = f"import sys, {module}; print(*[m for m in sys.modules if m.startswith('sublayer.training')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
