"""Base test-time adaptation methods: one file per paper, with its helpers beside it."""

from matcha_gnn.gamma.methods.adanpc import AdaNPC as AdaNPC
from matcha_gnn.gamma.methods.base import Arrays as Arrays
from matcha_gnn.gamma.methods.base import BaseMethod as BaseMethod
from matcha_gnn.gamma.methods.base import Modifies as Modifies
from matcha_gnn.gamma.methods.base import Prediction as Prediction
from matcha_gnn.gamma.methods.base import Prepared as Prepared
from matcha_gnn.gamma.methods.base import State as State
from matcha_gnn.gamma.methods.base import View as View
from matcha_gnn.gamma.methods.erm import ERM as ERM
from matcha_gnn.gamma.methods.graphpatcher import GraphPatcher as GraphPatcher
from matcha_gnn.gamma.methods.gtrans import GTrans as GTrans
from matcha_gnn.gamma.methods.lame import LAME as LAME
from matcha_gnn.gamma.methods.soga import SOGA as SOGA
from matcha_gnn.gamma.methods.t3a import T3A as T3A
from matcha_gnn.gamma.methods.tent import Tent as Tent
from matcha_gnn.registry import registered

METHODS: dict[str, type[BaseMethod]] = registered(vars(), BaseMethod)
