"""How far can the default be trusted on natural graphs, and on broken ones?

Families of natural pairs, split in two halves before anything was run. Constants of
`evidence.trust` were fitted on the first half, each family judged by constants that were fitted
without it; the second half was run once, with the constants as they are. Generated shifts stand
beside them, apart.
"""

FAMILIES = {
    "first": ("citation", "counties", "universities", "Cora cuts", "Syn-Cora"),
    "second": ("airports", "Twitch", "colleges", "Cora-ML", "Coauthor-CS cuts"),
}
