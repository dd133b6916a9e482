"""Training: a training that is killed and resumed ends with the bits of one that was not."""

from __future__ import annotations

from sublayer.nn.config import ConfigError
from sublayer.nn.model import Model
from sublayer.objectives import Objective, choose
from sublayer.testing.case import Case
from sublayer.testing.verdict import law, require
from sublayer.training.rehearsal import rehearse


@law("training")
def training(case: Case) -> str | None:
    """Five steps of the real trainer, killed after three and resumed, end with the same bits as five in one go."""
    return trained(case.config)


def trained(model: Model.Config, objective: Objective.Config | None = None) -> str | None:
    """The law for a model, with the objective it learns by default or with this one."""
    try:
        choose(model, named=objective).check_model(model)
        found = rehearse(model) if objective is None else rehearse(model, objective=objective)
    except ConfigError as error:
        return str(error)
    for name in found.whole:
        require(name not in found.differing, f"training: {name} differs after a training was killed and resumed")
    require(not found.differing, f"training: {', '.join(found.differing)} differ after a resumed training")
    return None
