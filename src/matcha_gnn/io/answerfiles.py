"""Answer files: a network's weights, what its source taught, and how the answer follows from both.

A file holds numbers and names, no code: whoever loads it brings the network.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from matcha_gnn.candidates import Answer, AnsweringNetwork
from matcha_gnn.errors import IncompatibleError, InvalidArgumentError
from matcha_gnn.evidence.goals import checked_names
from matcha_gnn.evidence.summary import SourceSummary
from matcha_gnn.evidence.weighing import BiasedPool, PoolWeights
from matcha_gnn.graphs.memory import Graph
from matcha_gnn.io.jsontext import json_object
from matcha_gnn.io.tensorfiles import TensorFormat
from matcha_gnn.kernels.contexts import plain_torch
from matcha_gnn.network.modules import unwrapped
from matcha_gnn.network.network import GivenNetwork, ModuleNetwork, Network, as_network
from matcha_gnn.typing import Parameters

FORMAT = TensorFormat(
    "answer", "matcha-gnn answer 1", allowed="a file as result.save(path) wrote it"
)
CONTENT = "content"
"""The entry of the metadata that has all but tensors, as JSON."""
_NETWORK, _SOURCE = "network.", "source."


class StoredNetwork(Network):
    """A network as files keep it: weights, and the name of the class that runs them.

    Args:
        class_name: of the module, or of the function that makes probabilities.
        weights: by name; none where probabilities are given.
        is_given: probabilities are given for each graph, by a function or as they are.
    """

    def __init__(self, class_name: str, weights: Mapping[str, Tensor], is_given: bool) -> None:
        super().__init__()
        self.class_name, self.weights, self.is_given = class_name, dict(weights), is_given

    @classmethod
    def of(cls, network: Network) -> "StoredNetwork":
        """What a file keeps of a network.

        Raises:
            IncompatibleError: its state has parts that are no dense tensors.
        """
        if isinstance(network, StoredNetwork):
            return network
        if isinstance(network, GivenNetwork):
            return cls(network.name, {}, is_given=True)
        module = _module(network)
        weights = module.state_dict()
        for name, part in weights.items():
            if not isinstance(part, Tensor) or part.layout != torch.strided:
                raise IncompatibleError(
                    f"save: {name} of {network.name} is no dense tensor: keep its state_dict with "
                    "torch.save"
                )
        return cls(type(module).__name__, weights, is_given=False)

    @property
    def name(self) -> str:
        """Of the class."""
        return self.class_name

    @property
    def fingerprint(self) -> Tensor | None:
        """None: it cannot be run."""
        return None

    def logits(self, graph: Graph) -> Tensor:
        """Refused: a file has no code."""
        raise IncompatibleError(f"{self.name}: mg.load(path, network=net) brings code to weights")

    def tensors(self, source: SourceSummary | None) -> dict[str, Tensor]:
        """Weights, and a source summary, by the names that a file gives them."""
        parts = {_NETWORK: self.weights, _SOURCE: source.tensors() if source else {}}
        return {
            prefix + name: each for prefix, part in parts.items() for name, each in part.items()
        }

    def facts(self) -> Parameters:
        """What is no tensor."""
        return {"class": self.class_name, "given": self.is_given}

    def fill(self, network: Network) -> None:
        """Put the weights into a private copy of the network that they are of.

        Raises:
            InvalidArgumentError: another class, or weights of other names, shapes or precision.
        """
        module = _module(network)
        if type(module).__name__ != self.class_name:
            allowed = f"a {self.class_name}, as the file says"
            raise InvalidArgumentError("network", f"a {type(module).__name__}", allowed)
        present = module.state_dict()
        for name in sorted({*present, *self.weights}):
            own, theirs = _described(present.get(name)), _described(self.weights.get(name))
            if theirs != own != "any":
                got = f"a {self.class_name} with {name}: {own}"
                raise InvalidArgumentError("network", got, f"{theirs}, as in the file")
        module.load_state_dict(self.weights)
        if isinstance(network, ModuleNetwork):
            network.origin = network.fingerprint


def _module(network: Network) -> nn.Module:
    """The module whose state a file keeps."""
    return unwrapped(network.net) if type(network) is ModuleNetwork else network


def _described(part: object) -> str:
    if not isinstance(part, Tensor):
        return "none"
    return "any" if is_lazy(part) else f"{part.dtype} {list(part.shape)}"


class SavedNetwork(NamedTuple):
    """What is common to files of answers and of questions.

    Attributes:
        network: with its source summary, unless a stand-in was made on the target.
        source: the summary that answers rest on.
    """

    network: StoredNetwork
    source: SourceSummary | None

    @classmethod
    def read(cls, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> "SavedNetwork":
        """The inverse of `StoredNetwork.tensors` and `facts`.

        Raises:
            KeyError, TypeError, ValueError: the file was not written by this package.
        """
        weights, source = (_behind(prefix, tensors) for prefix in (_NETWORK, _SOURCE))
        network = StoredNetwork(str(facts["class"]), weights, bool(facts["given"]))
        summary = SourceSummary.from_tensors(source) if source else None
        network.source = None if summary is None or bool(summary.evidence.stand_in) else summary
        return cls(network, summary)


def _behind(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def parts_of(model: Network) -> tuple[Network, Answer | None]:
    """The network, and how the answer follows from it; None where it is the network's own."""
    return (model.network, model.answer) if isinstance(model, AnsweringNetwork) else (model, None)


def answer_facts(answer: Answer | None) -> Parameters | None:
    """How an answer follows, as JSON values.

    Example:
        >>> answer_facts(Answer("pool", margin=0.5))
        {'kind': 'pool', 'margin': 0.5, 'weights': None, 'bias': None}
    """
    if answer is None:
        return None
    weights, bias = (None, None) if answer.bias is None else map(list, answer.bias)
    return {"kind": answer.kind, "margin": answer.margin, "weights": weights, "bias": bias}


def answer_of(facts: Mapping[str, Any] | None) -> Answer | None:
    """The inverse of `answer_facts`."""
    if facts is None:
        return None
    bias = None
    if facts["bias"] is not None:
        bias = BiasedPool(PoolWeights(*facts["weights"]), tuple(map(float, facts["bias"])))
    return Answer(facts["kind"], bias, facts["margin"])


def write_answer(model: Network, class_names: tuple[str, ...], path: str | Path) -> None:
    """Write what answers on other graphs to one file, whole or not at all.

    Args:
        model: of a result.
        class_names: [C], or empty.
        path: the file, named .safetensors.
    """
    network, answer = parts_of(model)
    stored = StoredNetwork.of(network)
    content = {
        "network": stored.facts(),
        "answer": answer_facts(answer),
        "class_names": list(class_names),
    }
    FORMAT.write(path, stored.tensors(model.source), {CONTENT: json.dumps(content)})


@plain_torch()
def load(path: str | Path, *, network: Any, logits: bool = False) -> Network:
    """What `result.save` wrote, to answer on other graphs: with the same bits as before.

    Nothing is imported from the file. It carries its source summary, so that it can be given to
    `adapt` and `estimate` as any network.

    Args:
        path: the file.
        network: made as when the result was saved, such as `GCN(32, 32, 2, 2)`; its weights are
            replaced in a private copy. Where probabilities were given: those on the next graph
            [N, C], or the function that makes them.
        logits: given numbers are logits, not probabilities.

    Raises:
        InvalidFileError: no such file, damaged, or another kind.
        InvalidArgumentError: another network than the file is of.

    Example:
        >>> import tempfile
        >>> import matcha_gnn as mg
        >>> source = mg.datasets.csbm(1000, 64, homophily=0.9, signal=2, seed=0)
        >>> target = mg.datasets.csbm(1000, 64, homophily=0.1, signal=2, seed=1)
        >>> model = mg.GPRGNN(64, 2)
        >>> _ = mg.fit(model, source, epochs=50)
        >>> result = mg.adapt(model, target)
        >>> path = Path(tempfile.mkdtemp()) / "answer.safetensors"
        >>> result.save(path)
        >>> loaded = mg.load(path, network=mg.GPRGNN(64, 2))
        >>> bool((loaded(target).argmax(1) == result.labels).all())
        True
    """
    (stored, source), answer, class_names = read_answer(path)
    kind = "a module" if isinstance(network, nn.Module) else f"a {type(network).__name__}"
    if stored.is_given == isinstance(network, nn.Module) or network is None:
        given = "class probabilities [N, C], or a function of a graph that returns them"
        allowed = given if stored.is_given else f"a {stored.name}, made as when it was saved"
        raise InvalidArgumentError("network", kind if network is not None else "None", allowed)
    running = as_network(network, None, logits=logits)
    if not stored.is_given:
        stored.fill(running)
    running.source = stored.source
    if stored.source is not None:
        running.expect(len(stored.source.class_prior))
    model: Network = running.frozen()
    if answer is not None and source is not None:
        model = AnsweringNetwork(model, source, answer)
    model.class_names = class_names
    return model


class SavedAnswer(NamedTuple):
    """What an answer file has."""

    saved: SavedNetwork
    answer: Answer | None
    class_names: tuple[str, ...]


def read_answer(path: str | Path) -> SavedAnswer:
    """Read an answer file without running anything.

    Raises:
        InvalidFileError: no such file, damaged, or another kind.
    """
    metadata, tensors = FORMAT.read(path)
    try:
        content = json_object(metadata[CONTENT])
        saved = SavedNetwork.read(content["network"], tensors)
        answer = answer_of(content["answer"])
        names = checked_names(content["class_names"] or None)
        if answer is not None and saved.source is None:
            raise ValueError("an answer without a source summary")
        return SavedAnswer(saved, answer, names)
    except (KeyError, TypeError, ValueError) as error:
        raise FORMAT.refused(path, f"damaged: {error}") from error
