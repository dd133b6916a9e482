"""A trained model with its tokenizer: text in, text out; or the top of an image in, the image out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, isfinite
from pathlib import Path
from typing import Any, overload

from sublayer.data import Data, Tokenizer
from sublayer.data.tokenizer import Pixels
from sublayer.data.tokenizer.pixels import Image
from sublayer.evaluation import Evaluation, Scored, by_age, by_length, by_position, other_text, own_text
from sublayer.evaluation.evaluation import check_options
from sublayer.evaluation.scoring import OnBatch
from sublayer.generation import Beam, Sampling, beam_search, complete, generate, stream
from sublayer.generation.engine import MakeReader, OnStep
from sublayer.nn.model import Model
from sublayer.objectives import Objective, choose
from sublayer.plugins import hinting
from sublayer.retrieval import Index, Mixture, MixtureScorer, Source, Store, Tuned, build
from sublayer.retrieval.explain import Explained, explain
from sublayer.retrieval.reader import MixtureReader
from sublayer.retrieval.tuning import tune as tune_mixture
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
    step: int
    """Of the checkpoint."""

    @classmethod
    def load(cls, path: Path | str, step: int | None = None) -> Trained:
        """From a run's last checkpoint, or the one after `step` steps."""
        run = Run.open(path)
        model = run.model_config.build()
        load_weights(model, weights_of(run, step), run.path)
        return cls(run, model.eval(), run.tokenizer, run.checkpoints[-1].step if step is None else step)

    def objective(self, data: Data.Config) -> Objective:
        """What the model is scored by on some data: what it was trained by, or what it learns from such data."""
        trained_by = self.run.request.objective
        with hinting(self.run.request.plugins):
            path = f"{self.run.path / ASKED}: objective"
            named = None if trained_by is None else Objective.Config.parse(trained_by, path)
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

    def build_datastore(
        self, text: Scored, folder: Path | str, *, index: str | Index.Config | None = None, **options: Any
    ) -> Store:
        """A store of the contexts of a text, built or gone on with; options: as for `retrieval.build`."""
        check_text(self, text)
        source = Source(self.model, self.tokenizer, str(self.run.path), self.step, text.tokens, text.title, text.split)
        length = options.pop("length", None) or self.run.request.length
        config = None if index is None else Index.Config.parse(index, "index")
        return build(source, folder, length=length, index=config, **options)

    def mixture(self, datastore: Sequence[Path | str], **settings: Any) -> Mixture:
        """The model with what is looked up in stores; settings: neighbours, share, temperature."""
        return Mixture.open(self.model, self.tokenizer, datastore, **settings)

    @overload
    def generate(self, prompt: str = "", **options: Any) -> str: ...

    @overload
    def generate(self, prompt: Sequence[str], **options: Any) -> list[str]: ...

    def generate(self, prompt: str | Sequence[str] = "", **options: Any) -> str | list[str]:
        """What the model writes after the prompt, or after each of several; options: as for `write`."""
        found = self.write([prompt] if isinstance(prompt, str) else prompt, **options)
        texts = [self.tokenizer.decode(ids) for ids in found]
        return texts[0] if isinstance(prompt, str) else texts

    def write(
        self,
        prompts: Sequence[str],
        *,
        tokens: int = 128,
        seed: int = 0,
        stop: Sequence[str] = (),
        beam: Beam | None = None,
        temperature: float = 0.8,
        mixture: Mixture | None = None,
        on_step: OnStep = lambda written: None,
        **sampling: Any,
    ) -> list[list[int]]:
        """The ids that the model writes after each prompt.

        stop: texts that end it. beam: search instead of drawing. sampling: top_k, top_p, min_p, repetition; a
        temperature of 0 takes the likeliest token. mixture: stores in which each context is looked up. on_step: called
        with the number of tokens written so far.
        """
        rows = self.encode(prompts)
        how: dict[str, Any] = {"tokens": tokens, "stop": self._ends(stop), "reader": reader_of(mixture)}
        if beam is not None:
            best = beam_search(self.model, rows, search=beam, on_step=on_step, **how)
            return [texts[0].ids for texts in best]
        drawn = Sampling(temperature=temperature, **sampling)
        return generate(self.model, rows, sampling=drawn, seed=seed, on_step=on_step, **how)

    def stream(
        self,
        prompt: str = "",
        *,
        tokens: int = 128,
        seed: int = 0,
        stop: Sequence[str] = (),
        temperature: float = 0.8,
        mixture: Mixture | None = None,
        **sampling: Any,
    ) -> Iterator[str]:
        """The same text piece by piece, as it is written."""
        drawn = Sampling(temperature=temperature, **sampling)
        how: dict[str, Any] = {"tokens": tokens, "stop": self._ends(stop), "reader": reader_of(mixture)}
        steps = stream(self.model, self.encode([prompt]), sampling=drawn, seed=seed, **how)
        return self.tokenizer.stream(token for (row,) in steps for token in row)

    def explain(self, prompt: str, ids: Sequence[int], mixture: Mixture) -> list[Explained]:
        """For each token after a prompt, what the model and what its neighbours gave it."""
        (before,) = self.encode([prompt])
        return explain(self.model, self.tokenizer, mixture, [*before, *ids], len(before))

    def complete(
        self,
        given: Sequence[Image],
        *,
        seed: int = 0,
        temperature: float = 1.0,
        on_step: OnStep = lambda written: None,
        **sampling: Any,
    ) -> list[Image]:
        """Images whose first rows are given, as arrays of rows × columns × channels; of no rows, images of its own.

        seed, temperature, sampling, on_step: as for `generate`.
        """
        drawn = Sampling(temperature=temperature, **sampling)
        return complete(self.model, self.pixels, given, sampling=drawn, seed=seed, on_step=on_step)

    @property
    def pixels(self) -> Pixels:
        """Its tokenizer, if it was trained on images."""
        if self.tokenizer.pixels is None:
            raise ValueError(f"{self.run.path}: was trained on text, and completes no images; use a run on image:…")
        return self.tokenizer.pixels

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each, at least one."""
        if self.tokenizer.pixels is not None:
            raise ValueError(f"{self.run.path}: was trained on images, and continues no text; complete images by it")
        return [self.tokenizer.encode(text or START).tolist() for text in texts]

    def _ends(self, stop: Sequence[str]) -> list[list[int]]:
        if any(not text for text in stop):
            raise ValueError("stop: an empty text would end everything at once; give at least one character")
        return [self.tokenizer.encode(text).tolist() for text in stop]


def reader_of(mixture: Mixture | None) -> MakeReader | None:
    """What reads in generation; None: the model alone, also where neighbours have no share."""
    return partial(MixtureReader, mixture=mixture) if mixture is not None and mixture.share else None


def evaluate(
    trained: Trained,
    data: str | None = None,
    *,
    split: str | None = None,
    length: int | None = None,
    batch: int | None = None,
    stride: int | None = None,
    memory: int | None = None,
    lengths: Sequence[int] = (),
    positions: bool = False,
    ages: bool = False,
    limit: int | None = None,
    datastore: Sequence[str | Path] = (),
    neighbours: int | None = None,
    share: float | None = None,
    temperature: float | None = None,
    tune: bool = False,
    on_batch: OnBatch | None = None,
) -> Evaluation:
    """Score a trained model on the test split of its own text, or on `data`, by its objective.

    lengths: the score for each segment length. positions: the loss by position in the segment. ages: attention by the
    age of keys. These, stride and memory are for objectives that score every token, as is datastore: stores in which
    each context is looked up. neighbours, share (λ), temperature: see `retrieval.Mixture`. tune: find share and
    temperature on the valid split.
    """
    check_options(length, stride, lengths, positions, ages)
    asked_of_stores = {"neighbours": neighbours, "lambda": share, "temperature": temperature, "tune": tune or None}
    check_lookup(datastore, asked_of_stores, alone=lengths or positions or ages)
    asked, config = trained.run.request, trained.model.config
    text = own_text(trained.run, split or "test") if data is None else other_text(data, trained.tokenizer, split)
    used = asked.length if length is None else length
    held = max(stack.remembered for stack in config.stacks.values())
    about: dict[str, Any] = {
        "run": str(trained.run.path),
        "step": trained.step,
        "text": text.title,
        "split": text.split,
        "asked": text.asked,
        "stride": stride,
        "trained_length": asked.length,
        "row": text.data.row,
    }
    how: dict[str, Any] = {"batch": batch, "limit": limit, "on_batch": on_batch}
    rows = text.data.longest(text.part) is not None
    if rows or not trained.objective(text.data.config).config.scores_every_token:
        by_token = {
            "stride": stride,
            "memory": memory,
            "lengths": lengths,
            "positions": positions,
            "ages": ages,
            "datastore": datastore,
        }
        for name, value in by_token.items():
            if value not in (None, (), [], False):
                raise ValueError(f"{name}: {text.title} is not scored token by token; leave it out")
        carry = (config.carries if asked.carry is None else asked.carry) and not text.data.alone
        figures = trained.evaluate(text, length=used, carry=carry, **how)
        whole = rows and not carry  # rows are read whole
        return Evaluation(**about, length=None if whole else used, memory=0 if whole else held, figures=figures)
    about["memory"] = 0 if stride is not None else held if memory is None else memory
    how["memory"] = memory
    if datastore:
        mixture = trained.mixture(datastore, neighbours=neighbours, share=share, temperature=temperature)
        how |= {"length": used, "stride": stride}
        tuned = _tuned(trained, mixture, text, data, how) if tune else None
        scorer = MixtureScorer(mixture if tuned is None else tuned.mixture, text.tokens)
        figures = trained.evaluate(text, scorer=scorer, **how)
        return Evaluation(**about, length=used, figures=figures, datastore=_looked_up(scorer, tuned, figures))
    if positions:
        losses = by_position(trained.model, text.tokens, length=used, **how).tolist()
        return Evaluation(**about, length=used, positions=[loss if isfinite(loss) else None for loss in losses])
    if ages:
        return Evaluation(**about, length=used, ages=by_age(trained.model, text.tokens, length=used, **how))
    if lengths:
        how |= {"stride": stride, "tokenizer": trained.tokenizer}
        return Evaluation(**about, length=None, lengths=by_length(trained.model, text.tokens, lengths, **how))
    return Evaluation(**about, length=used, figures=trained.evaluate(text, length=used, stride=stride, **how))


def check_lookup(datastore: Sequence[str | Path], asked: Mapping[str, Any], *, alone: object) -> None:
    """Refuse settings of stores without a store, and what is not measured with one. alone: if that is asked for."""
    given = [name for name, value in asked.items() if value is not None]
    if given and not datastore:
        raise ValueError(f"{given[0]}: is about datastores, and none is given; add --datastore STORE")
    if datastore and alone:
        raise ValueError("datastore: lengths, positions and ages are of the model alone; leave out one of the two")
    if asked.get("tune") and asked.get("lambda") is not None:
        raise ValueError("tune: finds lambda, which is given, too; leave out one of the two")


def check_text(trained: Trained, text: Scored) -> None:
    """Refuse what has no token after every context: tasks, images, and models that do not write."""
    rows = text.data.longest(text.part) is not None
    if rows or not trained.objective(text.data.config).config.scores_every_token:
        raise ValueError(f"{text.title}: a datastore is of a text, read token by token; give a text by --data")


def _tuned(trained: Trained, mixture: Mixture, text: Scored, data: str | None, how: Mapping[str, Any]) -> Tuned:
    """Tuned on the valid split, which must not be what is scored."""
    if text.split in ("valid", "all"):
        scored = "all of it" if text.split == "all" else "the valid split"
        raise ValueError(f"tune: needs the valid split of {text.title}, and {scored} is scored; add --split test")
    valid = own_text(trained.run, "valid") if data is None else other_text(data, trained.tokenizer, "valid")
    return tune_mixture(trained.model, mixture, valid.tokens, **how)


def _looked_up(scorer: MixtureScorer, tuned: Tuned | None, figures: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, and how the model alone does."""
    alone = scorer.model_nats / figures["tokens"] if scorer.mixture.share else figures["loss"]
    found = {**scorer.mixture.dump(), "model": {"loss": alone, "perplexity": exp(min(alone, 700.0))}}
    return found if tuned is None else {**found, "tuned": {"split": "valid", **tuned.dump()}}
