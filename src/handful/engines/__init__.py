"""The numerical engines that methods share: gradient descent, kernel densities, the share of unknowns."""
