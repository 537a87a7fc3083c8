"""Results with other predictions than those that were made."""

from dataclasses import replace


def with_probs(result, before=None, after=None):
    """The result as if the network and what was taken had predicted otherwise."""
    source, taken = result.candidates[0], result.taken
    before = source.probs if before is None else before
    after = taken.probs if after is None else after
    changed = float((before.argmax(1) != after.argmax(1)).double().mean())
    taken = replace(taken, name="taken", probs=after, changed=changed)
    candidates = replace(source, name="source", probs=before), taken
    return replace(result, candidates=candidates, chosen="taken")
