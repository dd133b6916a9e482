"""MixtureReader: generation whose scores are those of the mixture."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from sublayer.evaluation.scoring import reading
from sublayer.generation.reader import Reader
from sublayer.generation.request import GenerationRequest
from sublayer.nn.state import State
from sublayer.retrieval.key_vectors import KeyPlace, check_place, reading_keys
from sublayer.retrieval.mixture import Mixture


class MixtureReader(Reader):
    """Each step looks the context up; scores are ln(λ p by neighbours + (1 − λ) p by the model), of every token."""

    def __init__(self, request: GenerationRequest, mixture: Mixture) -> None:
        self.model, self.mixture = request.model, mixture
        self.place: KeyPlace = check_place(request.model, mixture.place)
        prompts, source = request.prompts, request.source
        start = self.model.start(source.ids_BL, source.valid_BL) if source else None
        self.state = self.model.frozen(self._read(prompts.ids_BL, start, prompts.valid_BL))

    def read(self, ids_B: Int[Tensor, " B"]) -> None:
        self.state = self._read(ids_B[:, None], self.state)

    def select(self, rows_B: Int[Tensor, " B"]) -> None:
        self.scores_BV, self.state = self.scores_BV[rows_B], self.state.select(rows_B)

    def _read(self, ids_BL: Tensor, state: State | None, valid_BL: Tensor | None = None) -> State:
        with reading(self.model), reading_keys(self.model, self.place) as keys:
            h_BLD, after = self.model(ids_BL, state, valid_BL)
            found = self.mixture.search(keys(h_BLD[:, -1:])[:, 0])
            log_p_BV = self.model.head.log_probs(h_BLD[:, -1])
        looked_up_BV = found.probabilities(log_p_BV.shape[1], self.mixture.temperature)
        share, near_BV = self.mixture.share, torch.from_numpy(looked_up_BV).to(log_p_BV.device)
        self.scores_BV = (share * near_BV + (1 - share) * log_p_BV.double().exp()).log()
        return after
