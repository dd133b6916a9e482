"""What cannot be asked is refused in one line, with the value and a remedy, before anything is written."""

import pytest
import torch

from sublayer.generation import Sampling, beam_search, generate, stream
from tests.generation.models import writer

WARM = Sampling(temperature=1.0)


@pytest.mark.parametrize(
    ("paper", "prompts", "options", "message"),
    [
        ("gpt2", [[1], []], {}, r"prompts\[1\]: the row is empty, and a model goes on from at least one id"),
        ("gpt2", [], {}, "prompts: there is no row; give at least one"),
        ("gpt2", [1, 2], {}, r"put a single row into a list, \[row\]"),
        ("gpt2", 3, {}, r"prompts: expected a list of rows"),
        ("gpt2", torch.tensor([1, 2]), {}, r"put a single row into a list, \[row\]"),
        ("gpt2", "text", {}, r"prompts: expected a list of rows, each a list of ids"),
        ("gpt2", [[1.5]], {}, r"prompts\[0\]: ids are whole numbers, got \[1.5\]"),
        ("gpt2", [["a"]], {}, r"prompts\[0\]: ids are whole numbers, got \['a'\]"),
        ("gpt2", [[1, 61]], {}, r"prompts\[0\]: id 61 is outside the vocabulary of 61; ids run from 0 to 60"),
        ("gpt2", [[-1]], {}, "id -1 is outside"),
        ("gpt2", [[1] * 170], {"tokens": 8}, "position=learned has 176; ask for at most 7"),
        ("gpt2", [[1]], {"tokens": -1}, "tokens: -1 is no number of ids to write"),
        ("gpt2", [[1]], {"source": [[1]]}, "source: a decoder reads no source"),
        ("gpt2", [[1]], {"stop": [[]]}, "stop: an empty sequence would end every text at once"),
        ("gpt2", [[1]], {"stop": 5}, r"stop: expected a list of ids and of sequences of ids, got 5; write stop=\[…\]"),
        ("gpt2", [[1]], {"stop": "end"}, "stop: expected a list of ids and of sequences of ids, got 'end'"),
        ("gpt2", [[1]], {"stop": ["end"]}, "stop: ids are whole numbers"),
        ("gpt2", [[1]], {"stop": [3, [4, 99]]}, "stop: id 99 is outside the vocabulary of 61"),
        ("gpt2", [[1]], {"eos": 61}, "id 61 is outside the vocabulary of 61"),
        ("bert-base", [[1]], {}, "model: Encoder does not write from left to right; use a decoder"),
        ("transformer", [[1]], {}, "source: encoder_decoder needs a source"),
        ("transformer", [[1]], {"source": [[1], [2]]}, "source: 2 rows for 1 prompt; give one each"),
        ("transformer", [[1]], {"source": [[99]]}, r"source\[0\]: id 99 is outside the vocabulary"),
        ("transformer", [[1]], {"source": [[]]}, r"source\[0\]: the row is empty"),
    ],
)
def test_wrong_input_is_refused(paper, prompts, options, message):
    model = writer(paper)
    for write in (generate, stream, beam_search):
        with pytest.raises(ValueError, match=message) as caught:
            write(model, prompts, **{"tokens": 4, **options})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sampling", [Sampling(), WARM], ids=["greedy", "drawn"])
def test_seeds_are_one_each(sampling):
    for write in (generate, stream):
        with pytest.raises(ValueError, match="seed: 2 seeds for 1 prompt; give one each, or a single one"):
            write(writer("gpt2"), [[1]], tokens=4, seed=[1, 2], sampling=sampling)
