"""Sources of components that were edited without a change of bits.

A refactor is listed here after rows with the component were trained under `smoke` before and after it, with the same `weights_sha256`.
Results of the old source then count as results of the new one.
"""

from __future__ import annotations

EQUAL: dict[str, frozenset[str]] = {
    "models/bridges/dense_attention_1.py": frozenset(
        {
            "2d2e044510b347478ce2bc5f4a6ac56d746853e4af45f728eeac83def30c81e0",
            "e20423c80fded51a060cbd11e023ea8cc5e22c7945086dd0d7b18f4e341d8e6f",
        }
    ),
    "models/bridges/dense_attention_2.py": frozenset(
        {
            "3a4b928ecf5cd4d9cae49124610112fd586b696acbc05531c14057e8c36ea2b5",
            "cd107246712eaaf589c498738dbf96dfeac8bba75676ed6728001ebd4e6f252b",
        }
    ),
    "models/bridges/extra.py": frozenset(
        {
            "13a05f82367bb54f270dfab080a1f54c7581b12bf23e03bc5cf898be4f666994",
            "4b6ff63c7c13f81b94df1daaec0ad00baa294eef7dc9416254b8ab116634a1e0",
        }
    ),
    "models/bridges/multiscale.py": frozenset(
        {
            "f086777a2301a843d6dbbb21ac84f10cd29c03e96847c469025af39a405045ae",
            "d5ac242e4b8cbec8d8a161bf460c06aec7b5698e427aace6634a72102c006397",
        }
    ),
    "models/bridges/multistep.py": frozenset(
        {
            "d823108d8a0b1e54fc4e1974e0c0c2c1a528bc74829362d83e842c8b927b87ef",
            "1ab0aa61e0af9c400be4b6d713ba2deda12630b244fe42fe4f21cc56daea6a2b",
        }
    ),
    "models/bridges/top.py": frozenset(
        {
            "bdb71f21115961250d61f7eed6f484a27f6122b604cc7e533bf144ee91f4b898",
            "0435e1b4b027e4736e2beee14f07b83cb6ab586e8bb8f10ca213887d47f568a4",
        }
    ),
    "models/bridges/transparent.py": frozenset(
        {
            "de5f09f34541699755acfa72847ec573a9e15b1f0826f1f648fcda3f7741b5e8",
            "5b234ead2bdee817b95e7addd0b33a503642c64f5915bc5c23f19d9c63d80dfd",
        }
    ),
    "models/gru.py": frozenset(
        {
            "2374bc6da092e26db9759cf9f135c449f66ab19d2fdcbbe3d0d4d3fcb7c6a89e",
            "12c4d1a15c37de88e68924c117e5f3862fb27107fe04d0daf03dce8d4c82bf1b",
        }
    ),
    "models/recurrence.py": frozenset(
        {
            "3a441ff043bae77afbff8f6d2dc922ee269f5fc5e74f87fe4cec358a266d5289",
            "a020c841c40905c15d9cf1fa49eb7a5cc5a6d00764c472f0eb38f39fee365b48",
        }
    ),
    "models/recurrent_layers.py": frozenset(
        {
            "727421790a25a6f4848337fba6e8b19482c2e2cdf725eb628c7a15f16178de94",
            "cae48aa2e8d06fdc035cbcb86ebbd398525a2ffabb53b4c46a03c2f38ddefdf3",
        }
    ),
    "models/self_attention/contextual.py": frozenset(
        {
            "6a9ea896fb0f77ef98e607e9dd6efbb968fc9171cdbff88a8b2074f3cab2066a",
            "f4ad9ffe6cc3b0d3f63be1079641fab884ebe4a2f65491d0846dd3488975d972",
        }
    ),
}
"""File -> sha256 of its syntax tree (see `component_sources`), before and after."""
