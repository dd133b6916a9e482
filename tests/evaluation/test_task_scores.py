"""TaskScore: shares of right answers and of whole episodes, against counting by hand; the same in rows and in lanes."""

import numpy as np
import pytest
import torch

import sublayer
from sublayer.data.tasks import Algorithmic, Copy, RandomWalk
from sublayer.evaluation import score_task
from sublayer.evaluation.task_scores import Tally
from sublayer.nn.embedding import Label


def test_a_tally_counts_answers_and_episodes():
    tally = Tally()
    right_BL = torch.tensor([[True, True, False], [False, True, True]])
    weights_BL = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    tally.add(2.0, right_BL, weights_BL, torch.tensor([[0, 0, 0], [1, 1, 1]]))
    tally.add(4.0, ~right_BL, weights_BL, torch.tensor([[2, 2, 2], [1, 1, 1]]))
    found = tally.score
    assert (found.nats, found.answers, found.right, found.episodes, found.whole) == (6.0, 10, 5, 3, 1)
    assert (found.loss, found.accuracy, found.sequence_accuracy) == (0.6, 0.5, 1 / 3)
    assert found.dump()["accuracy"] == 0.5


def model(head, vocab, **more):
    torch.manual_seed(0)
    sizes = {"dim": 16, "layout": "sf", "s.heads": 2, "s.memory.length": 40, "vocab": vocab}
    return sublayer.config("transformer-xl", {**sizes, "embedding": "token", "head": head, **more}).build().eval()


def by_hand(reader, task, examples):
    """One episode at a time."""
    right, whole = 0, 0
    for start, stop in zip(examples.start_E[:-1], examples.start_E[1:], strict=True):
        answers = torch.from_numpy(examples.answers_N[start:stop].astype(np.int64))
        with torch.no_grad():
            h_BLD, _ = reader(torch.from_numpy(examples.inputs_N[start:stop].astype(np.int64))[None])
            good = (reader.head(h_BLD)[0].argmax(-1) == answers)[answers >= 0]
        right += int(good.sum())
        whole += len(good) > 0 and bool(good.all())
    return right, whole


@pytest.mark.parametrize("batch", [1, 3, None])
def test_rows_are_scored_as_one_by_one(batch):
    task = Algorithmic.Config(length=8, test=60).build()
    reader = model(Label.Config(classes=10), task.vocab)
    found = score_task(reader, task.test, length=5, carry=False, batch=batch)
    assert (found.right, found.whole) == by_hand(reader, task, task.test)
    assert found.answers == task.test.asked.sum() > found.right > 0


def test_a_task_that_stands_alone_carries_nothing():
    task = Copy.Config(length=3, test_length=3, test=9).build()
    reader = model("tied", task.vocab)
    found = score_task(reader, task.test, length=2)
    assert (found.right, found.whole) == by_hand(reader, task, task.test)


def test_lanes_carry_from_segment_to_segment():
    """With one episode a lane, segments see what the whole episode shows."""
    task = RandomWalk.Config(size=3, length=9, test=4).build()
    reader = model(Label.Config(classes=9), task.vocab, **{"s.memory.span": "exact"})
    rows = score_task(reader, task.test, length=3, carry=False)
    lanes = score_task(reader, task.test, length=3, carry=True, batch=4)
    assert lanes.right == rows.right
    assert lanes.nats == pytest.approx(rows.nats, rel=1e-5)


def test_wrong_ones_are_refused():
    task = RandomWalk.Config(size=3, length=9, test=4).build()
    with pytest.raises(ValueError, match="test: asks for answer 8, and the head, label, has 4 classes; use the task"):
        score_task(model(Label.Config(classes=4), 4), RandomWalk.Config(size=3, length=50).build().test, length=3)
    with pytest.raises(ValueError, match="batch=0: expected at least 1"):
        score_task(model(Label.Config(classes=9), 4), task.test, length=3, batch=0)
    config = sublayer.config("gpt2", {"s.heads": 2, "position.limit": 8}, dim=16, layout="sf", vocab=4)
    with pytest.raises(
        ValueError, match="test: has episodes of 10 tokens, and the model 8 learned positions; use posit"
    ):
        score_task(config.but(head=Label.Config(classes=9)).build(), task.test, length=3)
