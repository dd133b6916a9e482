"""Writing id after id: greedy or sampled, a batch at a time, at once or as a stream."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from sublayer.generation.prompts import Prompts, Rows
from sublayer.generation.reader import Reader, read_prompts
from sublayer.generation.request import GenerationRequest
from sublayer.generation.sampling import Sampling, pick
from sublayer.generation.stop import Stop, WrittenText
from sublayer.runs.wording import plural

OnStep = Callable[[int], object]
MakeReader = Callable[[GenerationRequest], Reader]
THINNING = 0.25
"""Share of finished rows from which on it pays to copy the others into a smaller batch."""


def generate(
    model: nn.Module,
    prompts: Rows,
    *,
    tokens: int = 128,
    sampling: Sampling | None = None,
    seed: int | Sequence[int] = 0,
    stop: Iterable[Stop] = (),
    eos: int | None = None,
    source: Rows | None = None,
    native: bool = True,
    reader: MakeReader | None = None,
    on_step: OnStep = lambda written: None,
) -> list[list[int]]:
    """What the model writes after each prompt: up to `tokens` ids, without the prompt and the stop sequence.

    seed: row n draws by seed + n, or by the n-th of several seeds; alone or in a batch, the same seed writes the same.
    stop: ids, and sequences of ids, that end a text. source: what an encoder-decoder reads first, a row each.
    native: whether decoders on a CPU may use the step in C, where it serves them. reader: makes what reads and scores,
    if that is more than the model. on_step: called with the number of ids that each unfinished row has.
    """
    writing = Writing(
        GenerationRequest.of(model, prompts, tokens, stop, eos, source), sampling or Sampling(), seed, native, reader
    )
    for written in itertools.count(1):
        if writing.done:
            break
        writing.step()
        on_step(written)
    return [text.ids for text in writing.texts]


def stream(
    model: nn.Module,
    prompts: Rows,
    *,
    tokens: int = 128,
    sampling: Sampling | None = None,
    seed: int | Sequence[int] = 0,
    stop: Iterable[Stop] = (),
    eos: int | None = None,
    source: Rows | None = None,
    native: bool = True,
    reader: MakeReader | None = None,
) -> Iterator[list[list[int]]]:
    """`generate`, as it writes: at each step the new ids of each row, which add up to what `generate` returns.

    Ids that may yet turn out to begin a stop sequence are held back, so a step may give a row none, or several.
    """
    # Not in the generator: errors are raised at the call, not at the first step.
    writing = Writing(
        GenerationRequest.of(model, prompts, tokens, stop, eos, source), sampling or Sampling(), seed, native, reader
    )
    return _steps(writing)


def _steps(writing: Writing) -> Iterator[list[list[int]]]:
    while not writing.done:
        writing.step()
        yield [text.new_ids() for text in writing.texts]


class Writing:
    """A batch of texts being written; finished rows are removed when that pays."""

    @torch.inference_mode()
    def __init__(
        self,
        request: GenerationRequest,
        sampling: Sampling,
        seed: int | Sequence[int] = 0,
        native: bool = True,
        reader: MakeReader | None = None,
    ) -> None:
        self.sampling = sampling
        self.texts = [WrittenText(request.stops, request.tokens) for _ in request.prompts.rows]
        self.live = list(range(len(self.texts)))
        """The text that each row of the batch belongs to."""
        generators = _generators(seed, len(self.texts))
        self._generators = None if sampling.greedy else generators
        self._seen_BV = None if sampling.repetition == 1 else _seen(request.prompts, request.model.config.vocab)
        make = reader or partial(read_prompts, native=native)
        self.reader = make(request) if request.tokens else None

    @property
    def done(self) -> bool:
        return all(text.done for text in self.texts)

    @torch.inference_mode()
    def step(self) -> None:
        """One more id for each text that is not done."""
        assert self.reader is not None
        ids_B = pick(self.sampling.shape(self.reader.scores_BV, self._seen_BV), self._generators)
        for n, token in zip(self.live, ids_B.tolist(), strict=True):
            if not self.texts[n].done:
                self.texts[n].add(token)
        if self._seen_BV is not None:
            self._seen_BV.scatter_(1, ids_B[:, None], True)
        if not self.done:
            self.reader.read(self._thin(ids_B))

    def _thin(self, ids_B: Tensor) -> Tensor:
        """The ids of the rows that stay."""
        assert self.reader is not None
        stay = [row for row, n in enumerate(self.live) if not self.texts[n].done]
        if len(self.live) - len(stay) < THINNING * len(self.live):
            return ids_B
        rows_B = torch.tensor(stay, device=ids_B.device)
        self.reader.select(rows_B)
        self.live = [self.live[row] for row in stay]
        self._generators = self._generators and [self._generators[row] for row in stay]
        self._seen_BV = None if self._seen_BV is None else self._seen_BV[rows_B]
        return ids_B[rows_B]


def _generators(seed: int | Sequence[int], rows: int) -> list[torch.Generator]:
    seeds = list(seed) if isinstance(seed, Iterable) else range(seed, seed + rows)
    if len(seeds) != rows:
        raise ValueError(
            f"seed: {plural(len(seeds), 'seed')} for {plural(rows, 'prompt')}; give one each, or a single one to "
            "count up from"
        )
    return [torch.Generator().manual_seed(number % 2**64) for number in seeds]


def _seen(prompts: Prompts, vocab: int) -> Bool[Tensor, "B V"]:
    """Which ids are in each row."""
    seen_BV = torch.zeros(len(prompts.rows), vocab, dtype=torch.bool, device=prompts.ids_BL.device)
    for n, row in enumerate(prompts.rows):
        seen_BV[n, row] = True
    return seen_BV
