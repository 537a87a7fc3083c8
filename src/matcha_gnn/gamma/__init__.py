"""The Matcha paper: hop weights γ, the losses that move them, base methods, models with γ.

`Matcha` is Algorithm 1, around any base method: `mg.adapt(model, graph,
strategy=mg.Matcha(mg.T3A(k=100), rounds=50))`.

- `models`      GPRGNN, APPNP, JKNet, GCNII: how hops become a representation
- `networks`    a network that somebody else wrote, with γ
- `hops`        propagate once, keep every depth
- `methods`     base test-time adaptation methods
- `losses`      what γ minimises
- `strategies`  how γ is sought
- `running`     run a strategy around a base method
- `train`       train a model; `files`, save and load it; `testing`, checks for your own
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
