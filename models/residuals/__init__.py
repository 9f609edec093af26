"""Registered residuals: how sub-layers read the residual stream and how their outputs join it."""
