"""What `import sublayer` offers: configs by name or file, models trained, measured and searched for.

The command line calls these functions, so that both do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sublayer import models
from sublayer.keys import absolute, split
from sublayer.models import config
from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.papers import registry
from sublayer.papers.named import names
from sublayer.plugins import load_installed_plugins, load_plugin

if TYPE_CHECKING:
    from sublayer.comparison import ComparisonTable, LengthTable, Variant
    from sublayer.data import Data, DataConfig
    from sublayer.evaluation import Evaluation
    from sublayer.measurement import Race, Reading
    from sublayer.nas import SearchReporter, SearchResult, Space
    from sublayer.nas.proxies.records import ProxyRanking
    from sublayer.nas.proxies.study import StudyReporter
    from sublayer.nas.supernet import SupernetReporter
    from sublayer.nas.supernet.records import SupernetFigures
    from sublayer.papers.description import Description
    from sublayer.reports import Report
    from sublayer.reproduction import ClaimResult
    from sublayer.retrieval import Store
    from sublayer.runs import Run
    from sublayer.trained import Trained
    from sublayer.training.reporters import ProgressReporter

__all__ = [
    "compare",
    "compare_lengths",
    "config",
    "datastore",
    "describe",
    "evaluate",
    "load",
    "load_installed_plugins",
    "load_plugin",
    "measure",
    "names",
    "proxies",
    "race",
    "rank_table",
    "report",
    "reproduce",
    "resume",
    "search",
    "supernet",
    "train",
]


def train(
    name: str | Model.Config,
    data: str = "stdlib",
    out: str | Path = "runs/run",
    changes: Mapping[str, Any] | None = None,
    /,
    *,
    processes: int = 1,
    plugins: Sequence[str] = (),
    quiet: bool = False,
    reporter: ProgressReporter | None = None,
    **fields: Any,
) -> Run:
    """Train a paper's model, or one of your own, on a text: `sublayer.train("gpt2", "book.txt", "runs/book", dim=128)`.

    name: of a paper, a config file, a run or a candidate of a search (`searches/x#294`); the run records it. data: a
    file, a folder, a glob, `stdlib`, `-`, `task:copy`, … changes: as `fields`, but with dots in their names: "s.heads",
    "train.steps", "data.tokenizer". reporter: instead of a bar, or lines in a log.
    """
    from sublayer.training import TrainConfig
    from sublayer.training import train as train_run

    model, of = split({**(changes or {}), **fields})
    origin = None
    if isinstance(name, str):
        found = models.find(name)
        name, origin = found.config, found.name
    with _reporting(reporter, quiet) as chosen:
        return train_run(
            name,
            _data(data, of["data"]),
            out,
            TrainConfig().override(of["train"], "train"),
            changes=model,
            processes=processes,
            plugins=plugins,
            reporter=chosen,
            origin=origin,
        )


def resume(
    run: str | Path,
    changes: Mapping[str, Any] | None = None,
    *,
    step: int | None = None,
    processes: int = 1,
    plugins: Sequence[str] = (),
    quiet: bool = False,
    reporter: ProgressReporter | None = None,
) -> Run:
    """Continue a run, to the end of its budget or of a larger one: `sublayer.resume(run, {"train.steps": 2000})`."""
    from sublayer.training import resume as resume_run

    load_installed_plugins()
    _, of = split(changes or {})
    if key := next((key for key in changes or {} if not key.startswith("train.")), None):
        raise ConfigError(f"{key}: a run keeps its model and its data; only train.… keys can change on the way")
    with _reporting(reporter, quiet) as chosen:
        return resume_run(run, of["train"], step=step, processes=processes, plugins=plugins, reporter=chosen)


def load(run: str | Path, *, step: int | None = None) -> Trained:
    """A trained model with its tokenizer: `sublayer.load("runs/book").generate("Once")`."""
    from sublayer.trained import Trained

    load_installed_plugins()
    return Trained.load(run, step)


def evaluate(run: str | Path, data: str | None = None, *, step: int | None = None, **how: Any) -> Evaluation:
    """Score a run on its own test split or on another text: `sublayer.evaluate("runs/book", "other.txt", stride=32)`.

    how: split, length, batch, stride, memory, lengths, positions, ages, limit; datastore, neighbours, share,
    temperature, tune.
    """
    from sublayer.trained import evaluate as evaluate_trained

    return evaluate_trained(load(run, step=step), data, **how)


def datastore(
    run: str | Path,
    data: str | None = None,
    out: str | Path = "stores/store",
    *,
    split: str | None = None,
    step: int | None = None,
    **how: Any,
) -> Store:
    """A store of a text's contexts, to be looked up: `sublayer.datastore("runs/book", out="stores/book")`.

    data: another text than the run's own, whose train split is taken. how: index, key, dtype, length, stride, memory,
    limit, on_phase.
    """
    from sublayer.evaluation import other_text, own_text

    trained = load(run, step=step)
    text = own_text(trained.run, split or "train") if data is None else other_text(data, trained.tokenizer, split)
    return trained.build_datastore(text, out, **how)


def describe(
    name: str,
    changes: Mapping[str, Any] | None = None,
    *,
    diff: str | None = None,
    length: int = 64,
    memory: int | None = None,
) -> Description:
    """A member of the family, its cost, and its difference to its parent or to `diff`: `sublayer.describe("llama")`.

    name: of a paper, a config file, a run or a candidate of a search (`searches/x#294`). length, memory: new and
    remembered tokens of the pass whose FLOPs are counted.
    """
    import sublayer.generation  # noqa: F401  registers its fast paths
    from sublayer.papers.chosen_paths import chosen_paths
    from sublayer.papers.description import Description

    if length < 1 or (memory or 0) < 0:
        raise ValueError(f"length {length}, memory {memory}: count at least 1 new token and no fewer than 0 remembered")
    found, entry = models.find(name), registry.PAPERS.get(name)
    made = found.config.but(changes) if changes else found.config
    origin = found.run.request.origin if found.run else None
    against = diff or (entry.parent if entry else origin if origin in registry.PAPERS else None)
    differs = config(against).diff(made) if against else {}
    figures = found.point.figures() if found.point else ()
    paths = chosen_paths(made)
    return Description(found.name, made, made.cost(length, memory), entry, against, differs, paths, origin, figures)


def model_config(model: str | Model.Config, changes: Mapping[str, Any] | None = None) -> Model.Config:
    """The config of a paper, a file, a run or a candidate of a search, or the one given; with changes."""
    model = config(model) if isinstance(model, str) else model
    return model.but(changes) if changes else model


def measure(*models: str | Model.Config, **how: Any) -> list[Reading]:
    """Time and peak memory on this machine: `sublayer.measure("gpt2", config, task="token", length=256)`.

    models, how: as for `race`.
    """
    return race(*models, **how).readings


def race(
    *models: str | Model.Config,
    changes: Mapping[str, Any] | None = None,
    seconds: float = 3.0,
    wait: float = 30.0,
    anyway: bool = False,
    plugins: Sequence[str] = (),
    on_wait: Callable[[str], object] = lambda why: None,
    **setting: Any,
) -> Race:
    """Readings of models that run in turn, and the latency of each over that of the first (`ratios`), with intervals.

    models: papers, files, folders of runs, candidates of a search (`searches/x#294`), configs; changes apply to all.
    setting: task, length, memory, frozen, batch, threads, device. wait: seconds to repeat what other programs disturb;
    then it is refused, or, with `anyway`, returned with `reading.disturbed`. on_wait: called with what disturbs.
    """
    from sublayer.measurement import Race, Setting, checks
    from sublayer.measurement import measure as measure_configs
    from sublayer.measurement import race as race_configs
    from sublayer.measurement.quiet import require_quiet

    configs, how = [model_config(model, changes) for model in models], Setting().but(setting)
    checks.check(configs, how, seconds, wait)
    patience: dict[str, Any] = {"seconds": seconds, "wait": wait, "plugins": plugins, "on_wait": on_wait}
    if len(configs) == 1:  # its time and its memory come from one process
        found = Race(measure_configs(configs, how, **patience), [[]])
    else:
        found = race_configs(configs, how, **patience)
    return found if anyway else require_quiet(found, wait)


def search(
    name: str | Space,
    data: str | None = None,
    out: str | Path = "searches/search",
    changes: Mapping[str, Any] | None = None,
    /,
    *,
    rules: Sequence[str] = (),
    objectives: str = "decoder_params,latency,memory",
    limits: Mapping[str, str | float | None] | None = None,
    setting: Mapping[str, Any] | None = None,
    train: int = 0,
    budget: str | Model.Config | None = None,
    ray: str | None = None,
    plugins: Sequence[str] = (),
    reporter: SearchReporter | None = None,
    **how: Any,
) -> SearchResult:
    """Models within limits on this machine: `sublayer.search("sublayers", "book.txt", limits={"latency": "5ms"})`.

    changes: choices and fixed values of the space, {"dim": "128..512/64", "s.heads": 4}, and train.… and data.… keys.
    rules: such as "f.inner>1.7*dim". train: how many of the front to train on the text. ray: a cluster to score proxies
    and to train on. budget: a model whose latency is a limit, and which is measured with the front. how: method, seed,
    population, iterations, seconds, wait, remeasure.
    """
    from sublayer import executors
    from sublayer.data import prepare
    from sublayer.measurement import Setting
    from sublayer.nas import Space, spaces
    from sublayer.nas.goals import read_goals, read_limits
    from sublayer.nas.search import check_numbers
    from sublayer.nas.search import search as search_space
    from sublayer.training import TrainConfig

    load_installed_plugins()
    model, of = split(changes or {})
    if train and not data:
        raise ValueError(f"train={train}: there is no text to train on; add --data FILE")
    if not train and of["train"]:
        raise ValueError(f"train.{next(iter(of['train']))}: nothing is trained; add --train 3, or leave it out")
    if not data and of["data"]:
        raise ValueError(f"data.{next(iter(of['data']))}: there is no text; add --data FILE")
    # Everything that is quick to check is checked before the text is prepared.
    check_numbers(how.get("seed", 0), train, how.get("seconds", 3.0))
    how |= {"objectives": read_goals(objectives), "limits": read_limits(limits or {})}
    how |= {"setting": Setting().but(setting or {}), "train": train}
    how |= {"budget": model_config(budget) if budget is not None else None}
    training = TrainConfig().override(of["train"], "train")
    text = prepare(_text(data, of["data"])) if data else None
    space = spaces.fit(name if isinstance(name, Space) else spaces.read(name, model, rules), text, model)
    with executors.pool(ray, plugins=plugins) as pool:
        how |= {"training": training, "pool": pool, "plugins": plugins, "reporter": reporter}
        return search_space(space, out, text=text, **how)


def proxies(
    name: str | Space,
    data: str = "stdlib",
    out: str | Path = "proxies/study",
    changes: Mapping[str, Any] | None = None,
    /,
    *,
    rules: Sequence[str] = (),
    models: int = 20,
    names: Sequence[str] = (),
    seed: int = 0,
    latency: bool = False,
    workers: int = 1,
    ray: str | None = None,
    plugins: Sequence[str] = (),
    reporter: StudyReporter | None = None,
) -> ProxyRanking:
    """How well proxies rank models of a space that are then trained; the ranking is in out/ranking.json.

    changes: as for `search`. names: of the proxies; all if empty. latency: measure each model on this machine, too.
    """
    from sublayer import executors
    from sublayer.data import prepare
    from sublayer.nas import Space, spaces
    from sublayer.nas.proxies.study import STEPS, StudyRequest, run_study
    from sublayer.training import TrainConfig

    load_installed_plugins()
    model, of = split(changes or {})
    space = name if isinstance(name, Space) else spaces.read(name, model, rules)
    train = TrainConfig(steps=STEPS).override(of["train"], "train")
    if train.eval_every is None and train.steps:  # evaluating more often would take longer than the training
        train = train.but(eval_every=train.steps)
    text = prepare(_text(data, of["data"])).config
    request = StudyRequest(space, text, train, models, seed, tuple(names))
    with executors.pool(ray, workers, plugins) as pool:
        return run_study(out, request, pool, latency=latency, plugins=plugins, reporter=reporter)


def rank_table(file: str | Path, out: str | Path | None = None) -> ProxyRanking:
    """How well proxies rank the trained models of a CSV table; written to out/ranking.json if `out` is given."""
    from sublayer.nas.proxies import judging, table

    ranking = judging.judge(table.read(file), str(file))
    if out:
        ranking.write(Path(out) / "ranking.json")
    return ranking


def supernet(
    name: str | Model.Config,
    data: str = "stdlib",
    out: str | Path = "supernets/search",
    changes: Mapping[str, Any] | None = None,
    /,
    *,
    latency_weight: float = 0.0,
    latencies: Mapping[str, float] | None = None,
    sublayers: int | None = None,
    seeds: int = 3,
    par: Sequence[float] | None = None,
    retrain: bool = True,
    reporter: SupernetReporter | None = None,
    **fields: Any,
) -> SupernetFigures:
    """The order of sublayers, searched by gradient: `sublayer.supernet("gpt2", "book.txt", "supernets/book")`.

    changes: the base's, train.…, data.… and search.… keys. fields: of the search, as steps, letters, paths. latencies:
    seconds of each letter's sublayer; measured on this device if they are needed and not given.
    """
    from sublayer.nas.supernet import SearchConfig
    from sublayer.nas.supernet import search as search_layout
    from sublayer.nas.supernet.latency import find_latencies
    from sublayer.nn.model import Model
    from sublayer.training import TrainConfig

    load_installed_plugins()
    own = {key.removeprefix("search."): value for key, value in (changes or {}).items() if key.startswith("search.")}
    model, of = split({key: value for key, value in (changes or {}).items() if not key.startswith("search.")})
    base = name if isinstance(name, Model.Config) else config(name)
    search = SearchConfig().override({**fields, **own}, "search")
    train = TrainConfig().override({"steps": search.steps, **of["train"]}, "train")
    if latency_weight:
        seconds = latencies or find_latencies(base, model, search, train, Path(out))
        search = search.override({"latencies": seconds, "latency_weight": latency_weight}, "search")
    elif latencies:
        raise ValueError("--latencies: they count only with --latency-weight; give one, such as --latency-weight 10")
    return search_layout(
        base,
        _text(data, of["data"]),
        out,
        search,
        train,
        changes=model,
        sublayers=sublayers,
        seeds=seeds,
        par=par,
        retrained=retrain,
        reporter=reporter,
    )


def compare(variants: Sequence[str | Model.Config | Variant], *args: Any, **how: Any) -> ComparisonTable:
    """Variants trained alike: `sublayer.compare(["gpt2", "llama"], "book.txt", "out", {"train.tokens": 1_000_000})`."""
    from sublayer.comparison import compare as compare_variants

    return compare_variants(variants, *args, **how)


def compare_lengths(variants: Sequence[str | Model.Config | Variant], *args: Any, **how: Any) -> LengthTable:
    """`compare` at several lengths: `sublayer.compare_lengths(variants, "book.txt", "out", changes, [512, 2048])`."""
    from sublayer.comparison import compare_lengths as compare_variants

    return compare_variants(variants, *args, **how)


def reproduce(claim: str, out: str | Path = "", changes: Mapping[str, Any] | None = None, **how: Any) -> ClaimResult:
    """A paper's claim run again at a small size: `sublayer.reproduce("feedback/random-walk", seeds=(0, 1))`."""
    from sublayer.reproduction import reproduce as reproduce_claim

    load_installed_plugins()
    return reproduce_claim(claim, out, changes, **how)


def report(folders: Sequence[str | Path], out: str | Path = "report.html", **how: Any) -> Report:
    """One page about folders of runs, searches and comparisons: `sublayer.report(["runs"], "report.html")`.

    A candidate (`searches/x#294`) stands for its run if the search trained it, else for its search.
    """
    from sublayer.reports import report as write_report

    load_installed_plugins()
    return write_report([_folder(one) for one in folders], out, **how)


def _folder(name: str | Path) -> str | Path:
    if not models.is_point(str(name)):
        return name
    from sublayer.nas.point import read_point

    point = read_point(str(name))
    return point.run or point.folder


@contextmanager
def _reporting(reporter: ProgressReporter | None, quiet: bool) -> Iterator[ProgressReporter]:
    """The reporter given, or one that shows a training's progress."""
    if reporter is not None:
        yield reporter
        return
    from sublayer.progress import Display
    from sublayer.progress.training import training_view

    with Display("preparing", quiet=quiet) as display:
        yield training_view(display)


def _data(name: str, changes: Mapping[str, Any]) -> Data.Config:
    """The config of a text or a task, with data.… keys changed. Its path is absolute, so that any folder finds it."""
    from sublayer.data import Data

    found = Data.Config.guess(absolute(name))
    return found.override(changes, "data") if changes else found


def _text(name: str, changes: Mapping[str, Any]) -> DataConfig:
    """As `_data`, for what reads texts alone."""
    from sublayer.data import DataConfig

    found = DataConfig.guess(absolute(name))
    return found.override(changes, "data") if changes else found
