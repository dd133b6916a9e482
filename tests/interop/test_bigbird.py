"""BigBird's blocks beside those of transformers: equal where both see the same, on texts of many blocks."""

import numpy as np
import pytest
import torch
from transformers import BigBirdConfig, BigBirdForMaskedLM
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention

from sublayer.interop import huggingface
from sublayer.nn.attention.pattern import BlockLocal, Full, Global, Random, Union
from tests.interop import tiny

BLOCK, LENGTH = 2, 20


@pytest.fixture
def both(tmp_path):
    """Their model without dropout, and ours read from it."""
    settings = {"block_size": BLOCK, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = tiny.shake(BigBirdForMaskedLM(BigBirdConfig(**{**tiny.BIGBIRD, **settings})))
    model.save_pretrained(tmp_path)
    return model, huggingface.read(tmp_path)


def with_pattern(model, pattern):
    again = model.config.but({"s.pattern": pattern}).build().eval()
    again.load_state_dict(model.state_dict())
    return again


def test_the_random_blocks_of_a_training_give_the_same_scores(both, monkeypatch):
    """Theirs draw in training only. With the blocks that they draw, and the first and the last one global, ours score
    alike, on ten blocks; with their own draws they do not."""
    model, ours = both
    draw, drawn = BigBirdBlockSparseAttention._bigbird_block_rand_mask_with_head, []

    def recorded(self, *args, **options):
        drawn.append(draw(self, *args, **options))
        return drawn[-1]

    monkeypatch.setattr(BigBirdBlockSparseAttention, "_bigbird_block_rand_mask_with_head", recorded)
    ids = tiny.ids(length=LENGTH)
    expected = tiny.their_scores(model.train(), ids)
    assert len(drawn) == 2
    assert len(np.unique(drawn)) > 3

    random = Random.Config(block=BLOCK, blocks=1, look="both", among=LENGTH, seed=77)
    near = BlockLocal.Config(size=BLOCK, before=BLOCK, look="both")
    ends = Global.Config(first=BLOCK, every=LENGTH, count=BLOCK)
    again = with_pattern(ours, Union.Config(members=(near, ends, random)))
    assert (tiny.scores(again, ids) - expected).abs().max() > 1e-2
    tables = {
        one.seed: torch.nn.functional.pad(torch.as_tensor(drawn[layer][head]), (0, 0, 1, 1), value=-1).long()
        for layer in range(2)
        for head, one in enumerate(random.at(layer, 2).by_head(3))
    }
    monkeypatch.setattr(Random.Config, "drawn", lambda self, block: tables[self.seed][block])
    again = with_pattern(ours, Union.Config(members=(ends, near, random)))  # in an order that is not cached
    assert (tiny.scores(again, ids) - expected).abs().max() < 1e-4


def test_in_evaluation_theirs_count_the_first_block_again(both):
    """Which no set of pairs expresses: what they would see without it is not what they score."""
    model, ours = both
    ids = tiny.ids(length=LENGTH)
    near = BlockLocal.Config(size=BLOCK, before=BLOCK, look="both")
    ends = Global.Config(first=BLOCK, every=LENGTH, count=BLOCK)
    once = with_pattern(ours, Union.Config(members=(near, ends)))
    assert (tiny.scores(once, ids) - tiny.their_scores(model, ids)).abs().max() > 1e-3


def test_full_attention_scores_as_theirs_on_many_blocks(both):
    model, ours = both
    model.bert.set_attention_type("original_full")
    ids = tiny.ids(length=LENGTH)
    full = with_pattern(ours, Full.Config())
    assert (tiny.scores(full, ids) - tiny.their_scores(model, ids)).abs().max() < 1e-4
    assert (tiny.scores(ours, ids) - tiny.their_scores(model, ids)).abs().max() > 1e-2


def test_with_full_attention_and_plain_embeddings_it_is_a_bert(both, tmp_path):
    full = with_pattern(both[1], Full.Config())
    huggingface.write(full, tmp_path / "again")
    again = huggingface.read(tmp_path / "again")
    assert again.config == full.config
    assert '"model_type": "bert"' in (tmp_path / "again" / "config.json").read_text()
    assert torch.equal(tiny.scores(again, tiny.ids()), tiny.scores(full, tiny.ids()))


def test_the_published_form_is_read(both, tmp_path):
    """Saved for the pre-training, with a second head."""
    model, ours = both
    model.config.architectures = ["BigBirdForPreTraining"]
    path = tmp_path / "pretraining"
    state = model.state_dict() | {"cls.seq_relationship.weight": torch.ones(2, 12)}
    model.save_pretrained(path, state_dict={name: tensor.clone() for name, tensor in state.items()})
    assert torch.equal(tiny.scores(huggingface.read(path), tiny.ids()), tiny.scores(ours, tiny.ids()))
