"""Estimates and their errors: resampling, influence, regressions, shrinkage, rankings, folds."""
