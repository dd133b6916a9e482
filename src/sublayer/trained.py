"""A trained model with its tokenizer: text in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from sublayer.data import Data, Tokenizer
from sublayer.evaluation import Scored
from sublayer.generation import Beam, Sampling, beam_search, generate, stream
from sublayer.nn.model import Model
from sublayer.objectives import Objective, choose
from sublayer.runs import Run
from sublayer.runs.run import ASKED
from sublayer.runs.weights import load_weights, weights_of

START = "\n"
"""The prompt if none is given: texts begin after the end of a line."""


@dataclass(frozen=True)
class Trained:
    run: Run
    model: Model
    tokenizer: Tokenizer

    @classmethod
    def load(cls, path: Path | str, step: int | None = None) -> Trained:
        """From a run's last checkpoint, or the one after `step` steps."""
        run = Run.open(path)
        model = run.model_config.build()
        load_weights(model, weights_of(run, step), run.path)
        return cls(run, model.eval(), run.tokenizer)

    def objective(self, data: Data.Config) -> Objective:
        """What the model is scored by on some data: what it was trained by, or what it learns from such data."""
        trained_by = self.run.request.objective
        named = (
            None if trained_by is None else Objective.Config.parse(trained_by, f"{self.run.path / ASKED}: objective")
        )
        if named is not None and named.needs != data.gives:
            named = None
        return choose(self.model.config, data, named).build(self.model)

    def evaluate(self, text: Scored, *, length: int | None = None, **options: Any) -> dict[str, Any]:
        """Figures on a text or a task, as `own_text` and `other_text` give them.

        length: tokens in a segment; None: as in training. options: carry, batch, limit, on_batch, and what the
        objective takes beside them, such as stride and memory for next tokens.
        """
        length = self.run.request.length if length is None else length
        return self.objective(text.data.config).score(text.data, text.part, length=length, **options)

    @overload
    def generate(self, prompt: str = "", **options: Any) -> str: ...

    @overload
    def generate(self, prompt: Sequence[str], **options: Any) -> list[str]: ...

    def generate(
        self,
        prompt: str | Sequence[str] = "",
        *,
        tokens: int = 128,
        seed: int = 0,
        stop: Sequence[str] = (),
        beam: Beam | None = None,
        temperature: float = 0.8,
        **sampling: Any,
    ) -> str | list[str]:
        """What the model writes after the prompt, or after each of several.

        stop: texts that end it. beam: search instead of drawing. sampling: top_k, top_p, min_p, repetition; a
        temperature of 0 takes the likeliest token.
        """
        prompts = self.encode([prompt] if isinstance(prompt, str) else prompt)
        ends = self._ends(stop)
        if beam is not None:
            best = beam_search(self.model, prompts, tokens=tokens, search=beam, stop=ends)
            found = [texts[0].ids for texts in best]
        else:
            drawn = Sampling(temperature=temperature, **sampling)
            found = generate(self.model, prompts, tokens=tokens, sampling=drawn, seed=seed, stop=ends)
        texts = [self.tokenizer.decode(ids) for ids in found]
        return texts[0] if isinstance(prompt, str) else texts

    def stream(
        self,
        prompt: str = "",
        *,
        tokens: int = 128,
        seed: int = 0,
        stop: Sequence[str] = (),
        temperature: float = 0.8,
        **sampling: Any,
    ) -> Iterator[str]:
        """The same text piece by piece, as it is written."""
        drawn, ends = Sampling(temperature=temperature, **sampling), self._ends(stop)
        steps = stream(self.model, self.encode([prompt]), tokens=tokens, sampling=drawn, seed=seed, stop=ends)
        return self.tokenizer.stream(token for (row,) in steps for token in row)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each, at least one."""
        return [self.tokenizer.encode(text or START).tolist() for text in texts]

    def _ends(self, stop: Sequence[str]) -> list[list[int]]:
        if any(not text for text in stop):
            raise ValueError("stop: an empty text would end everything at once; give at least one character")
        return [self.tokenizer.encode(text).tolist() for text in stop]
